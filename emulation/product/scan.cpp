// What operands and results hold that needs regard: their range, zeros, NaN; for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/product/scan.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/product/rounder-inl.hpp>

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {

/// Bits of magnitudes are ordered as magnitudes are.
HWY_ATTR Extent extent(const float* values, std::size_t count) {
  using VI = hn::Vec<decltype(di)>;
  const std::size_t lanes = hn::Lanes(d);
  const VI clear = hn::Set(di, 0x7fff'ffff), infinity = hn::Set(di, 0x7f80'0000);
  VI most = hn::Zero(di), least = clear, largest_finite = hn::Zero(di);
  const auto take = [&](V v) HWY_ATTR {
    const VI magnitude = hn::And(hn::BitCast(di, v), clear);
    most = hn::Max(most, magnitude);
    largest_finite = hn::Max(largest_finite, hn::IfThenElseZero(hn::Lt(magnitude, infinity), magnitude));
    least = hn::Min(least, hn::And(hn::Sub(magnitude, hn::Set(di, 1)), clear));  // zeros go to the top
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) take(hn::LoadU(d, values + i));
  for (; i < count; ++i) take(hn::Set(d, values[i]));
  const std::int32_t above = hn::GetLane(hn::MinOfLanes(di, least));
  Extent extent;
  extent.finite = hn::GetLane(hn::MaxOfLanes(di, most)) < 0x7f80'0000;
  extent.max = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(di, largest_finite)));
  if (above < 0x7f80'0000 - 1) extent.min = std::bit_cast<float>(above + 1);
  return extent;
}

HWY_ATTR Oddities oddities(const float* tile) {
  auto zero = hn::FirstN(d, 0), nan = zero;
  for (std::size_t i = 0; i < tile_size; i += hn::Lanes(d)) {
    const V v = hn::LoadU(d, tile + i);
    zero = hn::Or(zero, hn::Eq(v, hn::Zero(d)));
    nan = hn::Or(nan, hn::IsNaN(v));
  }
  return {!hn::AllFalse(d, zero), !hn::AllFalse(d, nan)};
}

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::products {

HWY_EXPORT(extent);
HWY_EXPORT(oddities);

Extent extent_of(const float* values, std::size_t count) { return HWY_DYNAMIC_DISPATCH(extent)(values, count); }
Oddities oddities_of(const float* tile) { return HWY_DYNAMIC_DISPATCH(oddities)(tile); }

}  // namespace halfulp::products
#endif
