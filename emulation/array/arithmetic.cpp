// Element-wise operations in a carrier, from values to values: see arithmetic-inl.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/arithmetic-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls f with the operation and the rounding of its sums, which products and the like do not look at.
template <class F>
HWY_INLINE void with_sums(Operation operation, Sums sums, F f) {
  with_array_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op> tag) HWY_ATTR {
    using enum Sums;
    if constexpr (op == Operation::add || op == Operation::sub || op == Operation::fma) {
      switch (sums) {
        case nearest: break;
        case odd: return f(tag, std::integral_constant<Sums, odd>{});
        case zero: return f(tag, std::integral_constant<Sums, zero>{});
        case up: return f(tag, std::integral_constant<Sums, up>{});
        case down: return f(tag, std::integral_constant<Sums, down>{});
      }
    }
    return f(tag, std::integral_constant<Sums, nearest>{});
  });
}

HWY_ATTR void combine_in_float(Operation operation, Sums rounding, const float* a, const float* b, const float* c,
                               float* out, std::size_t count) {
  const hn::ScalableTag<float> d;
  with_sums(operation, rounding,
            [&]<Operation op, Sums sums>(std::integral_constant<Operation, op>, std::integral_constant<Sums, sums>)
                HWY_ATTR {
                  const InDirection<direction_of(sums)> environment;
                  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
                    const auto x = hn::LoadU(d, a + i), y = info(op).arity > 1 ? hn::LoadU(d, b + i) : x,
                               z = info(op).arity > 2 ? hn::LoadU(d, c + i) : x;
                    hn::StoreU(combine<op, sums, direction_of(sums)>(d, x, y, z), d, out + i);
                  }
                });
}

HWY_ATTR void combine_in_double(Operation operation, Sums rounding, const float* a, const float* b, const float* c,
                                double* out, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const auto load = [&](const float* from) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(half, from)); };
  with_sums(operation, rounding,
            [&]<Operation op, Sums sums>(std::integral_constant<Operation, op>, std::integral_constant<Sums, sums>)
                HWY_ATTR {
                  const InDirection<direction_of(sums)> environment;
                  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
                    const auto x = load(a + i), y = info(op).arity > 1 ? load(b + i) : x,
                               z = info(op).arity > 2 ? load(c + i) : x;
                    hn::StoreU(combine<op, sums, direction_of(sums)>(d, x, y, z), d, out + i);
                  }
                });
}

HWY_ATTR bool embedded_rounding() { return HALFULP_EMBEDDED_ROUNDING; }

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(combine_in_float);
HWY_EXPORT(combine_in_double);
HWY_EXPORT(embedded_rounding);

bool has_embedded_rounding() { return HWY_DYNAMIC_DISPATCH(embedded_rounding)(); }

void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, float* out,
                   std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_float)(op, sums, a, b, c, out, count);
}
void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, double* out,
                   std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_double)(op, sums, a, b, c, out, count);
}

}  // namespace halfulp::array
#endif
