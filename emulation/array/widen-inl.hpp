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

/// Code words in lanes of their own type, and which of them are not finite.
template <class Word>
class CodeLanes {
 public:
  using D = hn::ScalableTag<float>;
  using DU = hn::Rebind<Word, D>;
  using DI = hn::RebindToSigned<DU>;
  using VU = hn::Vec<DU>;
  using VI = hn::Vec<DI>;

  explicit HWY_INLINE CodeLanes(const WidenPlan& plan) : plan_(plan) {}

  /// What special() compares: the largest of several of these stands for all of them. Formats that keep their NaN where
  /// others have -0 move it up to the top.
  HWY_INLINE VI key(VU code) const {
    const VI magnitude = hn::BitCast(di, magnitude_of(code));
    if (!plan_.nan_negative_zero) return magnitude;
    const auto nan = hn::Eq(hn::BitCast(di, code), hn::BitCast(di, set(plan_.magnitude_mask + 1)));
    return hn::IfThenElse(nan, hn::Set(di, hwy::HighestValue<hn::TFromD<DI>>()), magnitude);
  }
  HWY_INLINE bool special(VI key) const {
    return !hn::AllFalse(di, hn::Gt(key, hn::BitCast(di, set(plan_.max_finite))));
  }

 protected:
  static constexpr D d{};
  static constexpr DU du{};
  static constexpr DI di{};
  static HWY_INLINE VU set(std::uint32_t bits) { return hn::Set(du, static_cast<Word>(bits)); }
  HWY_INLINE VU magnitude_of(VU code) const { return hn::And(code, set(plan_.magnitude_mask)); }
  const WidenPlan& plan_;
};

/// Code words that are fp16 ones in disguise (plan.halves), to floats; right where no lane is special().
class WidenHalves : public CodeLanes<std::uint16_t> {
 public:
  explicit HWY_INLINE WidenHalves(const WidenPlan& plan) : CodeLanes(plan) {}

  HWY_INLINE hn::Vec<D> regular(VU code) const { return hn::Mul(value(half(du, code)), hn::Set(d, plan_.half_scale)); }

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
  /// Code words of fp16 as floats.
  static HWY_INLINE hn::Vec<D> value(VU half) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>{}, half));
  }

 private:
  template <class D16, class V = hn::Vec<D16>>
  HWY_INLINE V fields(D16 d16, V half) const {
    return hn::And(half, hn::Set(d16, static_cast<std::uint16_t>(0x8000 | plan_.magnitude_mask << plan_.half_shift)));
  }
};

/// Code words in the low bits of 32-bit lanes to floats.
template <bool linear, bool flushes>
class Widen : public CodeLanes<std::uint32_t> {
 public:
  using VF = hn::Vec<D>;
  explicit HWY_INLINE Widen(const WidenPlan& plan) : CodeLanes(plan) {}

  /// Values, right where no lane is special().
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
    const auto subnormal = hn::BitCast(di, hn::Sub(hn::BitCast(d, above), hn::BitCast(d, set(plan_.emin))));
    return hn::Or(pick(small, hn::BitCast(du, subnormal), normal), sign);
  }

  static HWY_INLINE VU pick(hn::Mask<DI> mask, VU yes, VU no) {
    return hn::BitCast(du, hn::IfThenElse(mask, hn::BitCast(di, yes), hn::BitCast(di, no)));
  }
};

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
