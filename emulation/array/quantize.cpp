// Quantize over arrays, for each instruction set: values to values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/quantize.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/sweep-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Dispatch works on plain functions.
#define HALFULP_KERNEL(name, T, Out, domain)                                                                     \
  HWY_ATTR void name(const NarrowPlan<Carrier<T>::Bits>& plan, const RandomWords& random, const T* in, Out* out, \
                     std::size_t count) {                                                                        \
    narrow_any<T, Out, domain>(plan, random, in, out, count);                                                    \
  }
HALFULP_KERNEL(quantize_floats, float, float, Domain::values)
HALFULP_KERNEL(quantize_doubles, double, double, Domain::values)
#undef HALFULP_KERNEL

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(quantize_floats);
HWY_EXPORT(quantize_doubles);

void quantize_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, float* out,
                    std::size_t count) {
  HWY_DYNAMIC_DISPATCH(quantize_floats)(plan, random, in, out, count);
}
void quantize_lanes(const NarrowPlan<std::uint64_t>& plan, const RandomWords& random, const double* in, double* out,
                    std::size_t count) {
  HWY_DYNAMIC_DISPATCH(quantize_doubles)(plan, random, in, out, count);
}

}  // namespace halfulp::array
#endif
