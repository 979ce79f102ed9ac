// Arithmetic from code words to code words in one pass: fp16 where the CPU converts it, and formats of up to 8 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/fused.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/fused-inl.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// --- formats of up to 8 bits ----------------------------------------------------------------------------------------

/// Four: a way of four-inl.hpp.
template <class Four>
struct Bytes : InLanes<Bytes<Four>> {
  using Code = std::uint8_t;
  template <RoundingMode mode>
  using N = Narrow<float, mode, Cut::by_adder, false, Domain::codes>;

  Bytes(const WidenPlan& widen, const NarrowPlan<std::uint32_t>& narrow)
      : from(widen), to(narrow), are_finite(widen), four{widen} {}
  WidenPlan from;
  NarrowPlan<std::uint32_t> to;
  Finite<Code> are_finite;
  Four four;

  HWY_INLINE bool finite(const Code* codes) const { return are_finite(codes); }
  HWY_INLINE void load(const Code* codes, VF (&v)[4]) const { four(codes, v); }
  HWY_INLINE VF any_value(const Code* codes) const { return Widen<false, false>(from)(load_codes(du32, codes)); }

  template <Operation, RoundingMode mode>
  HWY_INLINE bool special(const VF (&r)[4]) const {
    const auto bits = [](VF v) HWY_ATTR { return hn::BitCast(du32, v); };
    return N<mode>(to).special(bits(r[0]), bits(r[1]), bits(r[2]), bits(r[3]));
  }
  template <RoundingMode mode>
  HWY_INLINE void store(const VF (&r)[4], Code* out) const {
    const N<mode> round(to);
    const auto code = [&](VF v) HWY_ATTR { return round.regular(hn::BitCast(du32, v), hn::Zero(du32)); };
    store_codes(du32, code(r[0]), code(r[1]), code(r[2]), code(r[3]), out);
  }
  template <RoundingMode mode>
  HWY_INLINE void store_any(VF v, Code* out) const {
    store_codes(du32, N<mode>(to)(hn::BitCast(du32, v), hn::Zero(du32)), out);
  }
};

HWY_ATTR void fused_bytes(Operation op, const WidenPlan& from, const NarrowPlan<std::uint32_t>& to,
                          const std::uint8_t* a, const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out,
                          std::size_t count) {
#if HALFULP_F16C
  if (from.halves)
    return fused(op, to.mode, Bytes<FourByHalves<Disguise::any, true, std::uint8_t>>(from, to), a, b, c, out, count);
#endif
  fused(op, to.mode, Bytes<FourByLanes<Widen<false, false>, std::uint8_t>>(from, to), a, b, c, out, count);
}

// --- fp16 by F16C ---

#if HALFULP_F16C
struct Halves : InLanes<Halves> {
  using Code = std::uint16_t;
  template <RoundingMode mode>
  using N = Narrow<float, mode, Cut::by_adder, false, Domain::values>;
  using HoldsNan = Narrow<float, RoundingMode::nearest_even, Cut::by_converter, false, Domain::values>;
  static constexpr hn::Rebind<std::uint16_t, decltype(df)> d16{};
  using VH = hn::Vec<decltype(d16)>;

  /// VCVTPS2PH takes its direction with it: sums that are rounded to odd may be truncated.
  template <Operation op, RoundingMode mode>
  static constexpr int environment = sums_before(mode, op) == Sums::odd ? to_zero : direction_of(mode);

  NarrowPlan<std::uint32_t> to;
  bool ieee;  ///< the overflow rule is VCVTPS2PH's own, so that no result is special

  HWY_INLINE VF any_value(const Code* codes) const {
    return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(df)>{}, hn::LoadU(d16, codes)));
  }
  static HWY_INLINE bool finite(const Code*) { return true; }  // VCVTPH2PS knows all operands
  HWY_INLINE void load(const Code* codes, VF (&v)[4]) const {
    const std::size_t lanes = hn::Lanes(df);
    v[0] = any_value(codes), v[1] = any_value(codes + lanes);
    v[2] = any_value(codes + 2 * lanes), v[3] = any_value(codes + 3 * lanes);
  }

  template <RoundingMode mode>
  static constexpr bool moves_off_midpoints = mode == RoundingMode::nearest_away ||
                                              mode == RoundingMode::nearest_to_zero;
  /// NaN, infinities where off_midpoints() would disturb them, and what a plan without infinities does not leave to the
  /// converter.
  template <Operation, RoundingMode mode>
  HWY_INLINE bool special(const VF (&r)[4]) const {
    const auto bits = [](VF v) HWY_ATTR { return hn::BitCast(du32, v); };
    if constexpr (moves_off_midpoints<mode>)
      if (ieee) {
        const auto finite = [](VF x, VF y) HWY_ATTR { return hn::And(hn::IsFinite(x), hn::IsFinite(y)); };
        return !hn::AllTrue(df, hn::And(finite(r[0], r[1]), finite(r[2], r[3])));
      }
    if (ieee) return HoldsNan(to).special(bits(r[0]), bits(r[1]), bits(r[2]), bits(r[3]));
    return N<mode>(to).special(bits(r[0]), bits(r[1]), bits(r[2]), bits(r[3]));
  }
  template <int direction>
  static HWY_INLINE VH convert(VF v) {
    return half_codes<direction>(df, v);
  }
  /// A finite float with its last bit set: it stays on its side of all midpoints of fp16 and equals none of them.
  static HWY_INLINE VF off_midpoints(VF v) { return hn::Or(v, hn::BitCast(df, hn::Set(du32, 1))); }
  /// v, not special(), rounded by VCVTPS2PH. Results of operations are given exactly, or to odd, or (sums, quotients
  /// and square roots, where the mode is a nearest one) are midpoints only if they are exact.
  template <RoundingMode mode>
  static HWY_INLINE VH rounded(VF v) {
    if constexpr (mode == RoundingMode::nearest_even) {
      return convert<_MM_FROUND_TO_NEAREST_INT>(v);
    } else if constexpr (mode == RoundingMode::toward_zero) {
      return convert<_MM_FROUND_TO_ZERO>(v);
    } else if constexpr (mode == RoundingMode::toward_positive) {
      return convert<_MM_FROUND_TO_POS_INF>(v);
    } else if constexpr (mode == RoundingMode::toward_negative) {
      return convert<_MM_FROUND_TO_NEG_INF>(v);
    } else if constexpr (mode == RoundingMode::nearest_away) {
      return convert<_MM_FROUND_TO_NEAREST_INT>(off_midpoints(v));
    } else if constexpr (mode == RoundingMode::nearest_to_zero) {  // x * (1 - epsilon / 2) is the number before x
      return convert<_MM_FROUND_TO_NEAREST_INT>(
          off_midpoints(hn::Mul(v, hn::Set(df, 1 - std::numeric_limits<float>::epsilon() / 2))));
    } else if constexpr (mode == RoundingMode::to_odd) {  // the same, or neighbours: one of these is odd
      const auto low = convert<_MM_FROUND_TO_NEG_INF>(v), high = convert<_MM_FROUND_TO_POS_INF>(v);
      return hn::IfThenElse(hn::TestBit(low, hn::Set(d16, 1)), low, high);
    } else {
      static_assert(handled<mode>, "no rounding to fp16 in vectors");
    }
  }
  template <RoundingMode mode>
  HWY_INLINE void store(const VF (&r)[4], Code* out) const {
    const std::size_t lanes = hn::Lanes(df);
    hn::StoreU(rounded<mode>(r[0]), d16, out), hn::StoreU(rounded<mode>(r[1]), d16, out + lanes);
    hn::StoreU(rounded<mode>(r[2]), d16, out + 2 * lanes), hn::StoreU(rounded<mode>(r[3]), d16, out + 3 * lanes);
  }
  template <RoundingMode mode>
  HWY_INLINE void store_any(VF v, Code* out) const {
    hn::StoreU(convert<0>(hn::BitCast(df, N<mode>(to)(hn::BitCast(du32, v), hn::Zero(du32)))), d16, out);  // exact
  }
};
#endif

HWY_ATTR bool fused_halves(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                           const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
#if HALFULP_F16C
  fused(op, to.mode, Halves{{}, to, !to.saturates}, a, b, c, out, count);
  return true;
#else
  (void)op, (void)to, (void)a, (void)b, (void)c, (void)out, (void)count;
  return false;
#endif
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(fused_bytes);
HWY_EXPORT(fused_halves);

void combine_byte_lanes(Operation op, const WidenPlan& from, const NarrowPlan<std::uint32_t>& to, const std::uint8_t* a,
                        const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(fused_bytes)(op, from, to, a, b, c, out, count);
}
bool combine_half_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                        const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(fused_halves)(op, to, a, b, c, out, count);
}

}  // namespace halfulp::array
#endif
