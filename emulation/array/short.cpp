// Arithmetic from code words to code words in one pass, for formats that are floats with fewer fraction bits: bf16,
// tf32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/short.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/fused-inl.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Code words are the upper bits of floats, those of Inf and NaN too. cut: at_half for the upper halves (bf16).
template <class C, Cut cut>
struct Short {
  using Code = C;
  template <RoundingMode mode>
  using N = Narrow<float, mode, cut, false, Domain::codes>;
  template <Operation op, RoundingMode mode>
  static constexpr int environment = sums_before_short(mode, op) == Sums::odd ? to_zero : direction_of(mode);
#if HALFULP_EMBEDDED_ROUNDING
  struct Key {};  // nothing is lost
  static HWY_INLINE Key no_key() { return {}; }
  static HWY_INLINE bool lost(Key) { return false; }
  template <Operation op, RoundingMode mode>
  static HWY_INLINE void note_lost(VF, VF, Key&) {}
#else
  static constexpr hn::RebindToSigned<decltype(df)> di32{};
  /// Of magnitudes of products the least, less 1, and the largest.
  struct Key {
    hn::Vec<decltype(du32)> least;
    hn::Vec<decltype(di32)> most;
  };
  static HWY_INLINE Key no_key() { return {hn::Set(du32, ~std::uint32_t{0}), hn::Zero(di32)}; }
  static HWY_INLINE bool lost(const Key& key) {
    const auto normal = hn::Eq(hn::Max(key.least, hn::Set(du32, least_normal - 1)), key.least);
    return !hn::AllTrue(du32, normal) || !hn::AllTrue(di32, hn::Lt(key.most, hn::Set(di32, largest)));
  }
  template <Operation op, RoundingMode mode>
  static HWY_INLINE void note_lost(VF a, VF b, Key& key) {
    constexpr Sums sums = sums_before_short(mode, op);
    if constexpr (is_nearest(mode) && (op == Operation::mul || (op == Operation::fma && HWY_NATIVE_FMA))) {
      // Products are exact where they are normal floats, and what became zero is zero in the format as well. The sum of
      // an fma must not begin with an infinity.
      const auto magnitude = hn::BitCast(du32, hn::Abs(hn::Mul(a, b)));
      key.least = hn::Min(key.least, hn::Sub(magnitude, hn::Set(du32, 1)));
      if constexpr (op == Operation::fma) key.most = hn::Max(key.most, hn::BitCast(di32, magnitude));
    } else if constexpr (may_lose<op, sums>) {
      key.least = hn::IfThenZeroElse(hn::RebindMask(du32, loses<op>(df, a, b)), key.least);
    }
  }
#endif

  NarrowPlan<std::uint32_t> to;
  const Rest* rest;

  static HWY_INLINE bool finite(const Code*) { return true; }  // floats know all operands

  /// Upper halves come as they lie: of two neighbours one is a float but for what the other leaves in its lower half,
  /// and the other takes a shift.
  HWY_INLINE void load(const Code* codes, VF (&v)[4]) const {
    if constexpr (cut == Cut::at_half) {
      const auto both = [&](std::size_t k) HWY_ATTR {
        return hn::LoadU(du32, reinterpret_cast<const std::uint32_t*>(codes) + k * hn::Lanes(du32));
      };
      const auto low = both(0), high = both(1);
      v[0] = hn::BitCast(df, hn::ShiftLeft<16>(low)), v[1] = hn::BitCast(df, hn::And(low, hn::Set(du32, upper)));
      v[2] = hn::BitCast(df, hn::ShiftLeft<16>(high)), v[3] = hn::BitCast(df, hn::And(high, hn::Set(du32, upper)));
    } else {
      const std::size_t lanes = hn::Lanes(df);
      v[0] = value(codes), v[1] = value(codes + lanes), v[2] = value(codes + 2 * lanes),
      v[3] = value(codes + 3 * lanes);
    }
  }

  template <Operation op, RoundingMode mode>
  static HWY_INLINE VF result(VF a, VF b, VF c, Key& key) {
    if constexpr (exact_products<op, mode>) return hn::Mul(a, b);
    constexpr Sums sums = sums_before_short(mode, op);
    note_lost<op, mode>(a, b, key);
    return combine_short<op, sums, environment<op, mode>>(df, a, b, c);
  }
  /// In the nearest modes only NaN is: what overflows becomes the infinity, as a float or by a carry. In other modes,
  /// and where an fma is two operations and the product overflows, an infinity may have been a number that does not.
  template <Operation op, RoundingMode mode>
  HWY_INLINE bool special(const VF (&r)[4]) const {
    using Finder = std::conditional_t<is_nearest(mode) && (op != Operation::fma || HWY_NATIVE_FMA), N<mode>,
                                      Narrow<float, mode, Cut::below_tail, false, Domain::codes>>;
    const auto bits = [](VF v) HWY_ATTR { return hn::BitCast(du32, v); };
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (exact_products<op, mode>) {
      constexpr int quiet = 0x01, denormal = 0x20, signalling = 0x80;  // what VFPCLASSPS looks for
      const auto found = [](VF v) HWY_ATTR { return _mm512_fpclass_ps_mask(v.raw, quiet | denormal | signalling); };
      const auto any = static_cast<__mmask16>(found(r[0]) | found(r[1]) | found(r[2]) | found(r[3]));
      if (any != 0 || cut == Cut::at_half) return any != 0;
    }
#endif
    return Finder(to).special(bits(r[0]), bits(r[1]), bits(r[2]), bits(r[3]));
  }
  template <RoundingMode mode>
  HWY_INLINE void store(const VF (&r)[4], Code* out) const {
    const auto code = [round = N<mode>(to)](VF v) HWY_ATTR { return round.regular_upper(hn::BitCast(du32, v)); };
    if constexpr (cut == Cut::at_half) {
      const Narrow<float, mode, cut, false, Domain::values> round(to);
      const auto pair = [&](VF low, VF high) HWY_ATTR {
        return hn::Or(code(low), round.regular(hn::BitCast(du32, high), hn::Zero(du32)));
      };
      auto* const pairs = reinterpret_cast<std::uint32_t*>(out);
      hn::StoreU(pair(r[0], r[1]), du32, pairs), hn::StoreU(pair(r[2], r[3]), du32, pairs + hn::Lanes(du32));
    } else {
      store_codes(du32, code(r[0]), code(r[1]), code(r[2]), code(r[3]), out);
    }
  }

  template <Operation, RoundingMode, int arity>
  void any(Pointers<Code, arity>, std::size_t begin, std::size_t count) const {
    (*rest)(begin, count);
  }

 private:
  /// Products are exact as normal floats, so that to nearest only those that are not normal need rounding to odd. (What
  /// is rounded to zero or to the smallest normal float is so in the format as well.) One instruction finds them.
  template <Operation op, RoundingMode mode>
  static constexpr bool exact_products = HALFULP_EMBEDDED_ROUNDING && op == Operation::mul && is_nearest(mode);
  static constexpr std::uint32_t upper = 0xffff'0000u, least_normal = 0x0080'0000u;
  static constexpr std::int32_t largest = 0x7f7f'ffff;
  HWY_INLINE VF value(const Code* codes) const {
    return hn::BitCast(df, hn::ShiftLeftSame(load_codes(du32, codes), to.tail));
  }
};

// Dispatch works on plain functions.
HWY_ATTR void short_16(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                       const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count,
                       const Rest& rest) {
  if (to.upper_half) fused(op, to.mode, Short<std::uint16_t, Cut::at_half>{to, &rest}, a, b, c, out, count);
  else fused(op, to.mode, Short<std::uint16_t, Cut::below_tail>{to, &rest}, a, b, c, out, count);
}
HWY_ATTR void short_32(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint32_t* a,
                       const std::uint32_t* b, const std::uint32_t* c, std::uint32_t* out, std::size_t count,
                       const Rest& rest) {
  fused(op, to.mode, Short<std::uint32_t, Cut::below_tail>{to, &rest}, a, b, c, out, count);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(short_16);
HWY_EXPORT(short_32);

void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                         const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count,
                         const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(short_16)(op, to, a, b, c, out, count, rest);
}
void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint32_t* a,
                         const std::uint32_t* b, const std::uint32_t* c, std::uint32_t* out, std::size_t count,
                         const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(short_32)(op, to, a, b, c, out, count, rest);
}

}  // namespace halfulp::array
#endif
