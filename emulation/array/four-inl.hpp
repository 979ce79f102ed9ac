// Four vectors of finite code words as floats: the fast ways, of which decoding and arithmetic take one. Included once
// for each instruction set.
#if defined(HALFULP_ARRAY_FOUR_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_FOUR_INL
#undef HALFULP_ARRAY_FOUR_INL
#else
#define HALFULP_ARRAY_FOUR_INL
#endif

#include <halfulp/emulation/array/widen-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr hn::ScalableTag<float> df;
inline constexpr hn::RebindToUnsigned<decltype(df)> du32;
using VF = hn::Vec<decltype(df)>;

/// Whether as many code words as four vectors of floats have are all finite: in lanes of their own size.
template <class Code>
class Finite {
 public:
  explicit HWY_INLINE Finite(const WidenPlan& plan)
      : nan_negative_zero_(plan.nan_negative_zero),
        magnitude_(set(plan.magnitude_mask)),
        max_(set(plan.max_finite)),
        all_(set(2 * plan.magnitude_mask + 1)),
        negative_zero_(set(plan.magnitude_mask + 1)) {}

  HWY_INLINE bool operator()(const Code* from) const {
    const std::size_t lanes = hn::Lanes(du), count = 4 * hn::Lanes(df) / lanes;
    if (nan_negative_zero_) {
      auto nan = is_nan(from);
      for (std::size_t k = 1; k < count; ++k) nan = hn::Or(nan, is_nan(from + k * lanes));
      if (!hn::AllFalse(di, nan)) return false;
    }
    VI largest = hn::And(load(from), magnitude_);
    for (std::size_t k = 1; k < count; ++k) largest = hn::Max(largest, hn::And(load(from + k * lanes), magnitude_));
    return hn::AllFalse(di, hn::Gt(largest, max_));
  }

 private:
  using DU = hn::Rebind<Code, hn::ScalableTag<Code>>;
  using DI = hn::RebindToSigned<DU>;
  using VI = hn::Vec<DI>;
  static constexpr DU du{};
  static constexpr DI di{};
  static HWY_INLINE VI set(std::uint32_t code) { return hn::BitCast(di, hn::Set(du, static_cast<Code>(code))); }
  static HWY_INLINE VI load(const Code* from) { return hn::BitCast(di, hn::LoadU(du, from)); }
  HWY_INLINE hn::Mask<DI> is_nan(const Code* from) const { return hn::Eq(hn::And(load(from), all_), negative_zero_); }
  bool nan_negative_zero_;  ///< formats that keep their NaN there
  VI magnitude_, max_, all_, negative_zero_;
};

/// Four vectors of finite code words, by a Widen.
template <class W, class Code>
struct FourByLanes {
  static constexpr bool any_code = false, but_nan = false;
  WidenPlan plan;
  HWY_INLINE void operator()(const Code* from, VF (&v)[4]) const {
    const W value(plan);
    const typename W::DU du;
    const std::size_t lanes = hn::Lanes(df);
    v[0] = value.regular(load_codes(du, from)), v[1] = value.regular(load_codes(du, from + lanes));
    v[2] = value.regular(load_codes(du, from + 2 * lanes)), v[3] = value.regular(load_codes(du, from + 3 * lanes));
  }
};
/// The same where code words are the upper halves of floats, which know all of them but NaN.
template <class Code>
struct FourByShift {
  static constexpr bool any_code = true, but_nan = true;
  WidenPlan plan;
  HWY_INLINE void operator()(const Code* from, VF (&v)[4]) const {
    const auto get = [&](std::size_t k) HWY_ATTR {
      return hn::BitCast(df, hn::ShiftLeft<16>(load_codes(du32, from + k * hn::Lanes(df))));
    };
    v[0] = get(0), v[1] = get(1), v[2] = get(2), v[3] = get(3);
  }
};
#if HALFULP_F16C
/// What code words have in common with those of fp16.
enum class Disguise {
  none,        ///< they are such
  upper_byte,  ///< they are the upper bytes of such (e5m2)
  bytes,       ///< their sign is that of a byte
  any,
};

/// The same through fp16, in whole vectors of its code words.
template <Disguise disguise, bool scaled, class Code>
struct FourByHalves {
  static constexpr bool any_code = false, but_nan = false;
  WidenPlan plan;
  HWY_INLINE void operator()(const Code* from, VF (&v)[4]) const {
    const WidenHalves widen(plan);
    const hn::ScalableTag<std::uint16_t> d16;
    const hn::Half<decltype(d16)> half16;
    const auto get = [&](std::size_t at, VF& low, VF& high) HWY_ATTR {
      auto codes = hn::Zero(d16);
      if constexpr (disguise == Disguise::none) codes = load_codes(d16, from + at);
      if constexpr (disguise == Disguise::upper_byte) codes = hn::ShiftLeft<8>(load_codes(d16, from + at));
      if constexpr (disguise == Disguise::any) codes = widen.half(d16, load_codes(d16, from + at));
      if constexpr (disguise == Disguise::bytes) {
        const hn::RebindToSigned<decltype(d16)> di16;
        const auto* bytes = reinterpret_cast<const std::int8_t*>(from + at);
        codes = widen.half_of_signed(d16, hn::BitCast(d16, load_codes(di16, bytes)));
      }
      const auto value = [](auto halves) HWY_ATTR {
        return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(df)>{}, halves));
      };
      low = value(hn::LowerHalf(half16, codes)), high = value(hn::UpperHalf(half16, codes));
      if constexpr (scaled)
        low = hn::Mul(low, hn::Set(df, plan.half_scale)), high = hn::Mul(high, hn::Set(df, plan.half_scale));
    };
    get(0, v[0], v[1]), get(hn::Lanes(d16), v[2], v[3]);
  }
};
/// f<disguise, scaled>() for a plan of halves.
template <class Code, class F>
HWY_INLINE void with_disguise(const WidenPlan& plan, F f) {
  const bool scaled = plan.half_scale != 1;
  if constexpr (sizeof(Code) == 1) {
    if (plan.half_sign_shift == 8 && plan.half_shift == 8 && !scaled)
      return f.template operator()<Disguise::upper_byte, false>();
    if (plan.half_sign_shift == 8)
      return scaled ? f.template operator()<Disguise::bytes, true>() : f.template operator()<Disguise::bytes, false>();
  } else if (plan.half_sign_shift == 0 && plan.half_shift == 0 && !scaled) {
    return f.template operator()<Disguise::none, false>();
  }
  f.template operator()<Disguise::any, true>();
}

/// The same for formats of up to four bits: all values are in one register, or all magnitudes where it has eight lanes.
class FourByTable {
 public:
  static constexpr std::size_t lanes = HWY_MAX_BYTES / 4;
  static constexpr bool any_code = lanes >= 16, but_nan = false;  ///< finite or not

  /// values[i]: that of code word i modulo their number, or of magnitude i.
  FourByTable(const WidenPlan& plan, const float (&values)[lanes])
      : sign_shift_(plan.sign_shift), magnitude_(plan.magnitude_mask), values_(hn::LoadU(df, values)) {}

  HWY_INLINE void operator()(const std::uint8_t* from, VF (&v)[4]) const {
    const auto get = [&](std::size_t k) HWY_ATTR {
      const auto code = load_codes(du32, from + k * lanes);
      // Indices have no more bits than there are lanes.
      if constexpr (any_code) return hn::TableLookupLanes(values_, hn::IndicesFromVec(df, code));
      const auto magnitude = hn::And(code, hn::Set(du32, magnitude_));
      const auto value = hn::TableLookupLanes(values_, hn::IndicesFromVec(df, magnitude));
      return hn::Or(value, hn::And(hn::BitCast(df, hn::ShiftLeftSame(code, sign_shift_)), hn::SignBit(df)));
    };
    v[0] = get(0), v[1] = get(1), v[2] = get(2), v[3] = get(3);
  }

 private:
  int sign_shift_;
  std::uint32_t magnitude_;
  VF values_;
};
#endif

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
