// Whether an array of code words holds what flushing concerns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/small.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>

#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Code>
HWY_ATTR bool any_small_of(const Code* codes, std::size_t count, Code magnitude, Code most) {
  const hn::ScalableTag<Code> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, magnitude), one = hn::Set(d, 1);
  auto least = hn::Set(d, static_cast<Code>(~Code{0}));  // of magnitudes less one: zeros go to the top
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) least = hn::Min(least, hn::Sub(hn::And(hn::LoadU(d, codes + i), mask), one));
  const bool found = !hn::AllFalse(d, hn::Lt(least, hn::Set(d, most)));
  const auto is_small = [=](Code code) { return static_cast<Code>((code & magnitude) - 1) < most; };
  return found || std::any_of(codes + i, codes + count, is_small);
}

// Dispatch works on plain functions.
HWY_ATTR bool any_small_8(const std::uint8_t* codes, std::size_t count, std::uint8_t magnitude, std::uint8_t most) {
  return any_small_of(codes, count, magnitude, most);
}
HWY_ATTR bool any_small_16(const std::uint16_t* codes, std::size_t count, std::uint16_t magnitude, std::uint16_t most) {
  return any_small_of(codes, count, magnitude, most);
}
HWY_ATTR bool any_small_32(const std::uint32_t* codes, std::size_t count, std::uint32_t magnitude, std::uint32_t most) {
  return any_small_of(codes, count, magnitude, most);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(any_small_8);
HWY_EXPORT(any_small_16);
HWY_EXPORT(any_small_32);

bool any_small(const std::uint8_t* codes, std::size_t count, std::uint8_t magnitude, std::uint8_t most) {
  return HWY_DYNAMIC_DISPATCH(any_small_8)(codes, count, magnitude, most);
}
bool any_small(const std::uint16_t* codes, std::size_t count, std::uint16_t magnitude, std::uint16_t most) {
  return HWY_DYNAMIC_DISPATCH(any_small_16)(codes, count, magnitude, most);
}
bool any_small(const std::uint32_t* codes, std::size_t count, std::uint32_t magnitude, std::uint32_t most) {
  return HWY_DYNAMIC_DISPATCH(any_small_32)(codes, count, magnitude, most);
}

}  // namespace halfulp::array
#endif
