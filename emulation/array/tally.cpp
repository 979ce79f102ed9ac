// What happened when values were rounded, told from values and results.
//
// A finite value was rounded inexactly where its result differs (a NaN differs from everything). It overflowed from
// over_from on, and was tiny below tiny_below, which is what round_pack() finds: both compare the value with a power of
// two or a midpoint. Arithmetic hands over sums rounded to odd, quotients and roots rounded to nearest with 2p + 2
// bits: these lie on the side of every value and midpoint of the format where the exact ones do, and are equal to none
// that the exact ones are not equal to.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/tally.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>

#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class Bits = typename Carrier<T>::Bits>
HWY_ATTR void tally_any(const NarrowPlan<Bits>& plan, const T* x, const T* results, std::size_t count, Tally& tally,
                        const Rest& rest) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Signed = hn::TFromD<decltype(di)>;
  const std::size_t lanes = hn::Lanes(d);
  const auto set = [&](Bits bits) HWY_ATTR { return hn::Set(di, static_cast<Signed>(bits)); };
  std::size_t outside = 0, inexact = 0, overflow = 0, underflow = 0, to_zero = 0, subnormal = 0, nan = 0, i = 0;
  // Random bits decide what overflows just above the largest value, and whether what became 2^emin was tiny.
  const bool draws = plan.mode == RoundingMode::stochastic;
  const auto last_finite = set(static_cast<Bits>(Carrier<T>::format.infinity()) - 1), max = set(plan.values.max);
  const auto emin = set(plan.emin), near_emin = set(plan.emin - (static_cast<Bits>(1) << plan.tail));
  const auto no_sign = hn::Set(di, hwy::HighestValue<Signed>());
  const auto least_over = set(std::min(plan.over_from[0], plan.over_from[1]));
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, x + i), result = hn::LoadU(d, results + i);
    const auto bits = hn::BitCast(di, value), u = hn::And(bits, no_sign), v = hn::And(hn::BitCast(di, result), no_sign);
    auto left = hn::Gt(u, last_finite);
    if (draws) {
      left = hn::Or(left, hn::And(hn::Gt(u, max), hn::Lt(u, least_over)));
      left = hn::Or(left, hn::And(hn::And(hn::Lt(u, emin), hn::Gt(u, near_emin)), hn::Eq(v, emin)));
    }
    // (Comparisons by Ne are false for NaN.)
    auto differs = hn::Not(hn::RebindMask(di, hn::Eq(value, result)));
    if (HWY_UNLIKELY(!hn::AllFalse(di, left))) {
      HWY_ALIGN std::uint8_t mask[8 + HWY_MAX_BYTES / 8] = {};
      hn::StoreMaskBits(di, left, mask);
      for (std::size_t k = 0; k < lanes; ++k)
        if (mask[k / 8] >> (k % 8) & 1) rest(i + k, 1), ++outside;
      differs = hn::AndNot(left, differs);
    }
    inexact += hn::CountTrue(di, differs);
    if (hn::AllFalse(di, hn::Or(hn::Lt(u, emin), hn::Not(hn::Lt(u, least_over))))) continue;
    const auto negative = hn::Lt(bits, hn::Zero(di));
    const auto over = hn::AndNot(
        left, hn::Not(hn::Lt(u, hn::IfThenElse(negative, set(plan.over_from[1]), set(plan.over_from[0])))));
    const auto tiny = hn::And(differs,
                              hn::Lt(u, hn::IfThenElse(negative, set(plan.tiny_below[1]), set(plan.tiny_below[0]))));
    const auto zero = hn::Eq(v, hn::Zero(di));
    overflow += hn::CountTrue(di, over);
    underflow += hn::CountTrue(di, tiny);
    to_zero += hn::CountTrue(di, hn::And(tiny, zero));
    subnormal += hn::CountTrue(di, hn::AndNot(zero, hn::AndNot(left, hn::Lt(v, emin))));
    nan += hn::CountTrue(di, hn::AndNot(left, hn::Not(hn::RebindMask(di, hn::Eq(result, result)))));
  }
  tally.elements += i - outside;
  tally.inexact += inexact;
  tally.overflow += overflow;
  tally.underflow += underflow;
  tally.to_zero += to_zero;
  tally.subnormal += subnormal;
  tally.nan += nan;
  if (inexact) tally.flags |= flag::inexact;
  if (overflow) tally.flags |= flag::overflow;
  if (underflow) tally.flags |= flag::underflow;
  if (i < count) rest(i, count - i);
}

// Dispatch works on plain functions.
HWY_ATTR void tally_floats(const NarrowPlan<std::uint32_t>& plan, const float* x, const float* results,
                           std::size_t count, Tally& tally, const Rest& rest) {
  tally_any<float>(plan, x, results, count, tally, rest);
}
HWY_ATTR void tally_doubles(const NarrowPlan<std::uint64_t>& plan, const double* x, const double* results,
                            std::size_t count, Tally& tally, const Rest& rest) {
  tally_any<double>(plan, x, results, count, tally, rest);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(tally_floats);
HWY_EXPORT(tally_doubles);

void tally_lanes(const NarrowPlan<std::uint32_t>& plan, const float* x, const float* results, std::size_t count,
                 Tally& tally, const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(tally_floats)(plan, x, results, count, tally, rest);
}
void tally_lanes(const NarrowPlan<std::uint64_t>& plan, const double* x, const double* results, std::size_t count,
                 Tally& tally, const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(tally_doubles)(plan, x, results, count, tally, rest);
}

}  // namespace halfulp::array
#endif
