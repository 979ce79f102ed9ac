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

template <class Code>
HWY_ATTR void shorten(const std::uint32_t* in, Code* out, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes)
    store_codes(d, hn::LoadU(d, in + i), hn::LoadU(d, in + i + lanes), hn::LoadU(d, in + i + 2 * lanes),
                hn::LoadU(d, in + i + 3 * lanes), out + i);
  for (; i < count; ++i) out[i] = static_cast<Code>(in[i]);
}
HWY_ATTR void shorten_8(const std::uint32_t* in, std::uint8_t* out, std::size_t count) { shorten(in, out, count); }
HWY_ATTR void shorten_16(const std::uint32_t* in, std::uint16_t* out, std::size_t count) { shorten(in, out, count); }

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
HWY_EXPORT(shorten_8);
HWY_EXPORT(shorten_16);
HWY_EXPORT(words_side_by_side);

void shorten_lanes(const std::uint32_t* in, std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(shorten_8)(in, out, count);
}
void shorten_lanes(const std::uint32_t* in, std::uint16_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(shorten_16)(in, out, count);
}

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
