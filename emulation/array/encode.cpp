// Encode over arrays, for each instruction set: values to code words.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/encode.cpp"
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
HALFULP_KERNEL(encode_floats_8, float, std::uint8_t, Domain::codes)
HALFULP_KERNEL(encode_floats_16, float, std::uint16_t, Domain::codes)
HALFULP_KERNEL(encode_floats_32, float, std::uint32_t, Domain::wide_codes)
HALFULP_KERNEL(encode_doubles, double, std::uint32_t, Domain::wide_codes)
#undef HALFULP_KERNEL

HWY_ATTR void words_side_by_side(std::uint64_t seed, std::uint64_t first_stream, std::uint64_t block, std::size_t count,
                                 std::uint32_t* words) {
  words_of_streams(seed, first_stream, block, count, words);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(encode_floats_8);
HWY_EXPORT(encode_floats_16);
HWY_EXPORT(encode_floats_32);
HWY_EXPORT(encode_doubles);
HWY_EXPORT(words_side_by_side);

void stream_words(std::uint64_t seed, std::uint64_t first_stream, std::uint64_t block, std::size_t count,
                  std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(words_side_by_side)(seed, first_stream, block, count, words);
}

void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint8_t* out,
                  std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_8)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint16_t* out,
                  std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_16)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint32_t* out,
                  std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_floats_32)(plan, random, in, out, count);
}
void encode_lanes(const NarrowPlan<std::uint64_t>& plan, const RandomWords& random, const double* in,
                  std::uint32_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(encode_doubles)(plan, random, in, out, count);
}

}  // namespace halfulp::array
#endif
