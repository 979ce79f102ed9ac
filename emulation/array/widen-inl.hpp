// Code words as floats: exact, so no mode matters. Included once for each instruction set.
#if defined(HALFULP_ARRAY_WIDEN_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_WIDEN_INL
#undef HALFULP_ARRAY_WIDEN_INL
#else
#define HALFULP_ARRAY_WIDEN_INL
#endif

#include <halfulp/emulation/array/lanes-inl.hpp>
#include <halfulp/emulation/array/plan.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Code words that are fp16 ones in disguise (plan.halves), if they are finite.
class WidenHalves {
 public:
  explicit HWY_INLINE WidenHalves(const WidenPlan& plan) : plan_(plan) {}

  /// Code words in 16-bit lanes as those of fp16: to the top of the lane, then down to where fp16's fields are; the
  /// sign's copies go.
  template <class D16, class V = hn::Vec<D16>>
  HWY_INLINE V half(D16 d16, V code) const {
    const hn::RebindToSigned<D16> di16;
    const auto top = hn::BitCast(di16, hn::ShiftLeftSame(code, plan_.half_sign_shift));
    return fields(d16, hn::BitCast(d16, hn::ShiftRightSame(top, plan_.half_sign_shift - plan_.half_shift)));
  }
  /// The same from code words of 8 bits with copies of the sign above.
  template <class D16, class V = hn::Vec<D16>>
  HWY_INLINE V half_of_signed(D16 d16, V code) const {
    return fields(d16, hn::ShiftLeftSame(code, plan_.half_shift));
  }

 private:
  template <class D16, class V = hn::Vec<D16>>
  HWY_INLINE V fields(D16 d16, V half) const {
    return hn::And(half, hn::Set(d16, static_cast<std::uint16_t>(0x8000 | plan_.magnitude_mask << plan_.half_shift)));
  }
  const WidenPlan& plan_;
};

/// Code words in the low bits of 32-bit lanes to floats.
template <bool linear, bool flushes>
class Widen {
 public:
  using D = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<D>;
  using DI = hn::RebindToSigned<D>;
  using VF = hn::Vec<D>;
  using VU = hn::Vec<DU>;
  explicit HWY_INLINE Widen(const WidenPlan& plan) : plan_(plan) {}

  /// Values of finite code words.
  HWY_INLINE VF regular(VU code) const { return hn::BitCast(d, regular_bits(code)); }

  /// Values of any code words.
  HWY_INLINE VF operator()(VU code) const {
    const VU magnitude = magnitude_of(code);
    const VU sign = hn::And(hn::ShiftLeftSame(code, plan_.sign_shift), set(0x8000'0000u));
    const VU nan = set(0x7fc0'0000u);
    VU value = regular_bits(code);
    const auto beyond = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(plan_.max_finite)));
    const auto infinite = hn::Eq(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(plan_.infinite)));
    value = pick(beyond, pick(infinite, hn::Or(sign, set(0x7f80'0000u)), nan), value);
    if (!plan_.nan_negative_zero) return hn::BitCast(d, value);
    value = pick(hn::And(hn::Eq(hn::BitCast(di, magnitude), hn::Zero(di)), hn::Lt(hn::BitCast(di, sign), hn::Zero(di))),
                 nan, value);
    return hn::BitCast(d, value);
  }

 private:
  static constexpr D d{};
  static constexpr DU du{};
  static constexpr DI di{};
  static HWY_INLINE VU set(std::uint32_t bits) { return hn::Set(du, bits); }
  HWY_INLINE VU magnitude_of(VU code) const { return hn::And(code, set(plan_.magnitude_mask)); }

  HWY_INLINE VU regular_bits(VU code) const {
    const VU sign = hn::And(hn::ShiftLeftSame(code, plan_.sign_shift), set(0x8000'0000u));
    VU magnitude = magnitude_of(code);
    const auto small = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int32_t>(plan_.min_normal)));
    if constexpr (flushes) magnitude = hn::BitCast(du, hn::IfThenZeroElse(small, hn::BitCast(di, magnitude)));
    const VU fields = hn::ShiftLeftSame(magnitude, plan_.tail);
    if constexpr (linear) return hn::Or(fields, sign);
    // Normal: the exponent field moves up. Subnormal: 2^emin + value has the same fields one exponent higher.
    const VU normal = hn::Add(fields, set(plan_.emin - 0x0080'0000u));
    const VU above = hn::Add(fields, set(plan_.emin));
    VF subnormal = hn::Sub(hn::BitCast(d, above), hn::BitCast(d, set(plan_.emin)));
#if !HALFULP_EMBEDDED_ROUNDING
    subnormal = hn::Abs(subnormal);  // where the environment rounds down, it makes -0 of what cancels
#endif
    return hn::Or(pick(small, hn::BitCast(du, subnormal), normal), sign);
  }

  static HWY_INLINE VU pick(hn::Mask<DI> mask, VU yes, VU no) {
    return hn::BitCast(du, hn::IfThenElse(mask, hn::BitCast(di, yes), hn::BitCast(di, no)));
  }
  const WidenPlan& plan_;
};

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
