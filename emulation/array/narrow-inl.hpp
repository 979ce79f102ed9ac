// Rounding a vector of carrier values to a format. Included once for each instruction set (Highway, foreach_target.h).
//
// One source of truth: the scalar kernel of round_pack.hpp. This body exists because it is faster; tests hold it to the
// scalar one, the ledger to rationals on every float.
#if defined(HALFULP_ARRAY_NARROW_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_NARROW_INL
#undef HALFULP_ARRAY_NARROW_INL
#else
#define HALFULP_ARRAY_NARROW_INL
#endif

#include <halfulp/emulation/array/lanes-inl.hpp>
#include <halfulp/emulation/array/plan.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Results as values of the carrier, or as code words in the low bits of its lanes; those of at most 16 bits in fewer
/// steps.
enum class Domain { values, codes, wide_codes };

/// Where the bits that a rounding drops are found.
enum class Cut {
  by_adder,      ///< the adder aligns
  below_tail,    ///< the last bits of the carrier: `linear` plans
  at_half,       ///< the lower half of a float: plans of `upper_half`
  by_converter,  ///< the CPU's converter to fp16 drops them: plans of `converter`
  by_halves,     ///< that converter drops some, and the rest is dropped from fp16's words: plans of `halves`
};

/// Modes that may round to fp16 first: in their own direction, or toward zero where ties go away from it.
constexpr bool goes_by_halves(RoundingMode mode) {
  return mode == RoundingMode::nearest_away || mode == RoundingMode::toward_zero ||
         mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;
}

/// The direction in which sums with an aligner are rounded. Stochastic rounding truncates magnitudes, and lets random
/// words become floats below them.
constexpr int direction_of(RoundingMode mode) {
  if (mode == RoundingMode::nearest_even) return to_nearest;
  if (mode == RoundingMode::toward_positive) return up;
  return mode == RoundingMode::toward_negative || mode == RoundingMode::stochastic ? down : to_zero;
}

/// `careful`: something is flushed, or zeros have no sign.
template <class T, RoundingMode mode, Cut cut, bool careful, Domain domain>
class Narrow {
  static constexpr bool linear = cut == Cut::below_tail || cut == Cut::at_half;

 public:
  using D = hn::ScalableTag<T>;
  using Bits = typename Carrier<T>::Bits;
  using DU = hn::Rebind<Bits, D>;
  using DI = hn::RebindToSigned<D>;
  using VF = hn::Vec<D>;
  using VU = hn::Vec<DU>;
  using VI = hn::Vec<DI>;

  /// Of the environment in which the functions below are called.
  static constexpr int environment = linear ? to_nearest : direction_of(mode);

  explicit HWY_INLINE Narrow(const NarrowPlan<Bits>& plan) : plan_(plan) {}

  /// A vector of carrier bits, rounded; right where no lane is special(). `random`: a fraction of 2^32 in each lane,
  /// for the stochastic mode only.
  HWY_INLINE VU regular(VU x, VU random) const {
    if constexpr (cut == Cut::at_half) return round_linear(x, x, random);
#if HALFULP_F16C
    if constexpr (cut == Cut::by_converter)
      return as_bits(hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>{}, halves(x))));
#endif
    if constexpr (linear && !careful && domain == Domain::values) return round_linear(x, x, random);
    const VU sign = hn::And(x, set(sign_bit));
    const VU u = magnitude_of(x);
    const VU rounded = linear ? round_linear(u, sign, random) : round_aligned(u, x, sign, random);
    if constexpr (careful) return with_sign(rounded, sign);
    if constexpr (clears_signs) return pick_bits(set(sign_bit), x, rounded);
    else if constexpr (domain == Domain::values) return hn::OrAnd(rounded, x, set(sign_bit));
    else return pick_bits(set(plan_.code_magnitude), rounded, hn::ShiftRightSame(x, plan_.sign_shift));
  }

#if HALFULP_F16C
  /// The code words of a vector's fp16 values.
  static HWY_INLINE auto halves(VU x) {
    return half_codes < mode == RoundingMode::nearest_even ? _MM_FROUND_TO_NEAREST_INT
           : mode == RoundingMode::toward_zero             ? _MM_FROUND_TO_ZERO
           : mode == RoundingMode::toward_positive         ? _MM_FROUND_TO_POS_INF
                                                           : _MM_FROUND_TO_NEG_INF > (d, as_float(x));
  }
#endif

#if HALFULP_EMBEDDED_ROUNDING
  /// The code words of two vectors without special() lanes, as 16-bit words.
  HWY_INLINE __m512i words_by_halves(VU x0, VU x1) const {
    const __m512i both = _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(one_by_halves(x0).raw),
                                                  one_by_halves(x1).raw, 1);
    const auto word = [](int bits) HWY_ATTR { return _mm512_set1_epi16(static_cast<short>(bits)); };
    const __m512i dropped = word((1 << plan_.half_tail) - 1), negative = _mm512_srai_epi16(both, 15);
    __m512i sum = both;
    if constexpr (mode == RoundingMode::nearest_away) sum = _mm512_add_epi16(both, word(1 << (plan_.half_tail - 1)));
    if constexpr (mode == RoundingMode::toward_positive)
      sum = _mm512_add_epi16(both, _mm512_maskz_andnot_epi32(0xffff, negative, dropped));
    if constexpr (mode == RoundingMode::toward_negative)
      sum = _mm512_add_epi16(both, _mm512_and_si512(negative, dropped));
    const __m512i magnitude = _mm512_sllv_epi16(sum, word(plan_.half_missing));
    return _mm512_srlv_epi16(_mm512_ternarylogic_epi32(word(0x7fff), magnitude, sum, 0xca),
                             word(8 + plan_.half_unused));
  }
#endif

  /// The same without splitting off the sign: code words are the upper bits of the carrier's.
  HWY_INLINE VU regular_upper(VU x) const {
    static_assert(linear && !careful && domain != Domain::values && mode != RoundingMode::stochastic);
    return round_linear(x, x, hn::Zero(du));
  }

  /// The same in the upper halves of the lanes; the lower ones hold anything.
  HWY_INLINE VU upper_half(VU x, VU random) const {
    static_assert(cut == Cut::at_half);
    return linear_sum(x, x, random);
  }

  /// What special() compares: the largest of several of these stands for all of them.
  static HWY_INLINE VI key(VU x) { return hn::BitCast(di, hn::AndNot(set(sign_bit), x)); }
  HWY_INLINE bool special(VI key) const { return !none(hn::Gt(key, hn::BitCast(di, set(plan_.special_from - 1)))); }

  /// Whether a lane of four vectors is special. Where the adder aligns, powers of two are at hand: most vectors are all
  /// below the one that special lanes have.
  HWY_INLINE bool special(VU x0, VU x1, VU x2, VU x3) const {
    if constexpr (cut == Cut::by_adder && !careful) {
      const auto binade = [this](VU x) HWY_ATTR { return hn::BitCast(di, binade_of(x)); };
      const VI largest = hn::Max(hn::Max(binade(x0), binade(x1)), hn::Max(binade(x2), binade(x3)));
      const VI below = hn::BitCast(di, set((plan_.special_from & infinity) - 1));
      if (HWY_LIKELY(none(hn::Gt(largest, below)))) return false;
    }
    if constexpr (cut == Cut::at_half || cut == Cut::by_converter) {  // NaN
      return any_nan(d, as_float(x0), as_float(x1), as_float(x2), as_float(x3));
    } else {
      return special(hn::Max(hn::Max(key(x0), key(x1)), hn::Max(key(x2), key(x3))));
    }
  }

  /// Where the adder aligns, the last bits of a carrier are what normal numbers lose. It takes half as many
  /// instructions to add the random bits there, and is worth a look where few numbers are subnormal in the format: if
  /// its smallest normal number is at most far_below_one.
  static constexpr bool has_normal_way = cut == Cut::by_adder && mode == RoundingMode::stochastic && !careful &&
                                         sizeof(T) == 4 && domain != Domain::wide_codes;
  static constexpr Bits far_below_one = static_cast<Bits>(Carrier<T>::format.bias - 14)
                                        << Carrier<T>::format.fraction_bits;
  /// Whether all lanes of four vectors are normal numbers of the format, or zeros.
  HWY_INLINE bool all_normal(VU x0, VU x1, VU x2, VU x3) const {
    const VI k0 = key(x0), k1 = key(x1), k2 = key(x2), k3 = key(x3);
    const auto less_one = [](VI k) HWY_ATTR { return hn::BitCast(du, hn::Sub(k, hn::Set(di, 1))); };  // zero is last
    const VU least = hn::Min(hn::Min(less_one(k0), less_one(k1)), hn::Min(less_one(k2), less_one(k3)));
    const auto subnormal = hn::RebindMask(di, hn::Gt(set(plan_.emin - 1), least));
    const VI largest = hn::Max(hn::Max(k0, k1), hn::Max(k2, k3));
    return none(hn::Or(subnormal, hn::Gt(largest, hn::BitCast(di, set(plan_.special_from - 1)))));
  }
  /// regular() of such lanes.
  HWY_INLINE VU normal(VU x, VU random) const {
    if constexpr (domain == Domain::values) return round_linear(x, x, random);
    const Bits offset = plan_.code_offset - (Bits{1} << (fraction_bits - plan_.tail));
    const VU code = hn::Sub(round_linear(hn::BitCast(du, key(x)), x, random), set(offset));
    const VU magnitude = hn::BitCast(du, hn::Max(hn::BitCast(di, code), hn::Zero(di)));  // a zero's is negative
    return pick_bits(set(plan_.code_magnitude), magnitude, hn::ShiftRightSame(x, plan_.sign_shift));
  }

  /// The same for any lanes: overflow, infinities and NaN too.
  HWY_INLINE VU operator()(VU x, VU random) const {
    const VU sign = hn::And(x, set(sign_bit));
    const VU u = magnitude_of(x);
    VU magnitude = linear ? round_linear(u, sign, random) : round_aligned(u, x, sign, random);
    VU result = with_sign(magnitude, sign);
    auto over = hn::Not(less(u, choose(x, plan_.over_from)));
    if constexpr (mode == RoundingMode::stochastic) {  // a carry may reach the place of the sign
      if constexpr (domain == Domain::codes) magnitude = hn::And(magnitude, set(2 * plan_.code_magnitude + 1));
      over = hn::Or(over, less(set(specials().max), magnitude));
    }
    result = select(over, choose(x, specials().over), result);
    result = select(hn::Eq(hn::BitCast(di, u), hn::BitCast(di, set(infinity))), choose(x, specials().infinite), result);
    return select(less(set(infinity), u), set(specials().nan), result);
  }

 private:
  static constexpr D d{};
  static constexpr DU du{};
  static constexpr DI di{};
  static constexpr Bits sign_bit = static_cast<Bits>(Carrier<T>::format.sign_mask());
  static constexpr Bits infinity = static_cast<Bits>(Carrier<T>::format.infinity());
  static constexpr Bits fraction_mask = static_cast<Bits>(Carrier<T>::format.fraction_mask());
  static constexpr int fraction_bits = Carrier<T>::format.fraction_bits;
  static constexpr bool directed = mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;

  static constexpr int direction = direction_of(mode);
  /// Whether the environment makes -0 of what cancels.
  static constexpr bool clears_signs = domain == Domain::values && !linear && !HALFULP_EMBEDDED_ROUNDING &&
                                       direction == down;

#if HALFULP_EMBEDDED_ROUNDING
  HWY_INLINE auto one_by_halves(VU x) const {
    constexpr int toward = mode == RoundingMode::toward_positive   ? _MM_FROUND_TO_POS_INF
                           : mode == RoundingMode::toward_negative ? _MM_FROUND_TO_NEG_INF
                                                                   : _MM_FROUND_TO_ZERO;
    return half_codes<toward>(d, mul_toward<toward>(d, as_float(x), hn::Set(d, static_cast<T>(plan_.half_scale))));
  }
#endif

  const typename NarrowPlan<Bits>::Specials& specials() const {
    return domain == Domain::values ? plan_.values : plan_.codes;
  }

  static HWY_INLINE VU set(Bits bits) { return hn::Set(du, bits); }
  static HWY_INLINE VF as_float(VU v) { return hn::BitCast(d, v); }
  static HWY_INLINE VU as_bits(VF v) { return hn::BitCast(du, v); }
  /// a < b for magnitudes, which are never negative as signed integers.
  static HWY_INLINE hn::Mask<DI> less(VU a, VU b) { return hn::Lt(hn::BitCast(di, a), hn::BitCast(di, b)); }
  static HWY_INLINE VU select(hn::Mask<DI> mask, VU yes, VU no) {
    return hn::BitCast(du, hn::IfThenElse(mask, hn::BitCast(di, yes), hn::BitCast(di, no)));
  }
  static HWY_INLINE VU one_if(hn::Mask<DI> mask, VU v) {
    return hn::BitCast(du, add_one_if(di, mask, hn::BitCast(di, v)));
  }
  static HWY_INLINE bool none(hn::Mask<DI> mask) {
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (sizeof(T) == 4) return _kortestz_mask16_u8(mask.raw, mask.raw);
#endif
    return hn::AllFalse(di, mask);
  }
  static HWY_INLINE hn::Mask<DI> as_int(hn::Mask<D> mask) { return hn::RebindMask(di, mask); }
  static HWY_INLINE hn::Mask<DI> negative(VU x) { return hn::Lt(hn::BitCast(di, x), hn::Zero(di)); }
  static HWY_INLINE VU all_if_negative(VU x) { return hn::BitCast(du, hn::BroadcastSignBit(hn::BitCast(di, x))); }
  /// One of two constants by the sign of x.
  static HWY_INLINE VU choose(VU x, const std::array<Bits, 2>& by_sign) {
    return select(negative(x), set(by_sign[1]), set(by_sign[0]));
  }

  HWY_INLINE VU magnitude_of(VU x) const {
    const VU u = hn::AndNot(set(sign_bit), x);
    if constexpr (!careful) return u;
    return hn::BitCast(du, hn::IfThenZeroElse(less(u, choose(x, plan_.zero_below)), hn::BitCast(di, u)));
  }

  /// The bits of one vector or of another, bit by bit.
  static HWY_INLINE VU pick_bits(VU mask, VU yes, VU no) {
#if HALFULP_EMBEDDED_ROUNDING
    return VU{_mm512_ternarylogic_epi32(mask.raw, yes.raw, no.raw, 0xca)};
#else
    return hn::Or(hn::And(mask, yes), hn::AndNot(mask, no));
#endif
  }

  /// The result with its sign bit where it goes; a zero that has none gets none.
  HWY_INLINE VU with_sign(VU rounded, VU sign) const {
    if constexpr (clears_signs) rounded = hn::AndNot(set(sign_bit), rounded);
    if constexpr (domain == Domain::codes) rounded = hn::And(rounded, set(plan_.code_magnitude));
    if constexpr (domain != Domain::values) sign = hn::ShiftRightSame(sign, plan_.sign_shift);
    if (!careful || !plan_.unsigned_zero) return hn::Or(rounded, sign);
    const auto zero = hn::Eq(hn::BitCast(di, hn::AndNot(set(sign_bit), rounded)), hn::Zero(di));
    return hn::Or(rounded, hn::BitCast(du, hn::IfThenZeroElse(zero, hn::BitCast(di, sign))));
  }

  // --- the dropped bits are the last bits of the carrier ---

  HWY_INLINE VU round_linear(VU u, VU sign, VU random) const {
    const VU sum = linear_sum(u, sign, random);
    if constexpr (domain != Domain::values) return above_tail(sum);
    else return hn::AndNot(set((Bits{1} << tail()) - 1), sum);
  }
  /// The same, and anything in the bits that are dropped.
  HWY_INLINE VU linear_sum(VU u, VU sign, VU random) const {
    const Bits unit = Bits{1} << tail(), mask = unit - 1;
    VU sum = u;
    if constexpr (mode == RoundingMode::nearest_even)
      sum = hn::Add(hn::Add(u, set(unit / 2 - 1)), hn::And(above_tail(u), set(1)));
    else if constexpr (mode == RoundingMode::nearest_away) sum = hn::Add(u, set(unit / 2));
    else if constexpr (mode == RoundingMode::nearest_to_zero) sum = hn::Add(u, set(unit / 2 - 1));
    else if constexpr (mode == RoundingMode::toward_positive)
      sum = hn::Add(u, hn::AndNot(all_if_negative(sign), set(mask)));
    else if constexpr (mode == RoundingMode::toward_negative)
      sum = hn::Add(u, hn::And(all_if_negative(sign), set(mask)));
    else if constexpr (mode == RoundingMode::to_odd)  // carries into the last kept bit exactly if something is dropped
      sum = hn::Or(u, hn::Add(hn::And(u, set(mask)), set(mask)));
    else if constexpr (mode == RoundingMode::stochastic)
      sum = hn::Add(u, cut == Cut::at_half ? hn::ShiftRight<16>(random)
                       : plan_.tail <= 32  ? hn::ShiftRightSame(random, 32 - plan_.tail)
                                           : hn::ShiftLeftSame(random, plan_.tail - 32));
    else static_assert(mode == RoundingMode::toward_zero || handled<mode>, "no linear rounding in vectors");
    return sum;
  }
  HWY_INLINE int tail() const { return cut == Cut::at_half ? 16 : plan_.tail; }
  HWY_INLINE VU above_tail(VU v) const {
    if constexpr (cut == Cut::at_half) return hn::ShiftRight<16>(v);
    else return hn::ShiftRightSame(v, plan_.tail);
  }

  // --- the adder aligns ---

  /// 2^max(e, emin) of x, whose sign does not matter.
  HWY_INLINE VU binade_of(VU x) const {
    return hn::BitCast(du, hn::Max(hn::BitCast(di, hn::And(x, set(infinity))), hn::BitCast(di, set(plan_.emin))));
  }

  /// In the domain of values a result may come with its sign. Code words of at most 16 bits come with more bits above
  /// them: the aligner's own last bits are such that the sum's lack nothing but e << fraction_bits.
  HWY_INLINE VU round_aligned(VU u, VU x, VU sign, VU random) const {
    if constexpr (careful) x = hn::Or(u, sign);
    const VU binade = binade_of(x);  // as special() has it
    if constexpr (domain == Domain::values && (directed || mode == RoundingMode::nearest_even))
      return as_bits(signed_value(as_float(x), binade));
#if HALFULP_EMBEDDED_ROUNDING
    if constexpr (domain == Domain::values && mode == RoundingMode::stochastic && sizeof(T) == 4) {
      const VF kept = minus_aligner(as_float(truncated_sum(as_float(u), binade)), binade);
      const VF unit = as_float(
          set(static_cast<Bits>(Carrier<T>::format.bias - fraction_bits + plan_.tail) << fraction_bits));
      return VU{_mm512_castps_si512(
          _mm512_mask3_fmadd_ps(as_float(binade).raw, unit.raw, kept.raw, carries(u, kept, binade, random).raw))};
    }
#endif
    const VU sum = aligned_sum(u, x, binade, random);
    if constexpr (domain == Domain::values) {
      return as_bits(minus_aligner(as_float(sum), binade));
    } else {
      const VU exponent = hn::ShiftRightSame(binade, plan_.tail);
      if constexpr (domain == Domain::codes) return hn::Add(exponent, sum);
      return hn::Add(exponent, hn::Sub(hn::And(sum, set(fraction_mask)), set(plan_.code_offset)));
    }
  }
  HWY_INLINE Bits align() const { return domain == Domain::codes ? plan_.align_codes : plan_.align; }

  /// x rounded to nearest, up or down, but for the sign of zeros. With 1.5 C instead of C the sum stays in its binade
  /// whatever the sign of x: two bits at least are dropped.
  HWY_INLINE VF signed_value(VF x, VU binade) const {
    const VF factor = as_float(
        set(plan_.align + (static_cast<Bits>(Carrier<T>::format.bias) << fraction_bits) + (fraction_mask + 1) / 2));
    if constexpr (mode == RoundingMode::nearest_even)
      return hn::NegMulAdd(as_float(binade), factor, hn::MulAdd(as_float(binade), factor, x));
    else return hn::NegMulAdd(as_float(binade), factor, fma_toward<direction>(d, as_float(binade), factor, x));
  }

  // C = binade * 2^tail, of which fused multiplications need no instruction: the product is exact.
  HWY_INLINE VF scale() const {
    return as_float(set(align() + (static_cast<Bits>(Carrier<T>::format.bias) << fraction_bits)));
  }
  template <int direction>
  HWY_INLINE VF plus_aligner(VF v, VU binade) const {
    return fma_toward<direction>(d, as_float(binade), scale(), v);
  }
  HWY_INLINE VF plus_aligner(VF v, VU binade) const { return hn::MulAdd(as_float(binade), scale(), v); }
  HWY_INLINE VF minus_aligner(VF v, VU binade) const { return hn::NegMulAdd(as_float(binade), scale(), v); }

  /// Bits of aligner + u rounded by the mode to the aligner's last bit, which weighs as much as the last bit kept of u.
  /// The bits are consecutive integers: one more is one unit more.
  HWY_INLINE VU aligned_sum(VU u, VU with_sign, VU binade, VU random) const {
    const VF x = as_float(u);
    if constexpr (mode == RoundingMode::nearest_even) {
      return as_bits(plus_aligner(x, binade));
    } else if constexpr (mode == RoundingMode::toward_zero) {
      return truncated_sum(x, binade);
    } else if constexpr (directed) {
      return directed_sum(with_sign, binade);
    } else if constexpr (mode == RoundingMode::nearest_away || mode == RoundingMode::nearest_to_zero) {
      // Half a unit more, truncated. Where ties go toward zero it is a little less than half a unit, and less than what
      // the last bit of x weighs wherever x is half a unit or more.
      const Bits less = mode == RoundingMode::nearest_to_zero ? 1 : 0;
      const VF half = as_float(
          set((static_cast<Bits>(Carrier<T>::format.bias - fraction_bits + plan_.tail - 1) << fraction_bits) - less));
      return truncated_sum(fma_toward<to_zero>(d, as_float(binade), half, x), binade);
    } else if constexpr (mode == RoundingMode::to_odd) {
      const VU sum = truncated_sum(x, binade);
#if HALFULP_EMBEDDED_ROUNDING  // the same, or neighbours, whose last bits differ
      const VU above = as_bits(plus_aligner<up>(x, binade));
      return hn::OrAnd(sum, above, set(1));
#else
      const VF rounded = minus_aligner(as_float(sum), binade);
      return select(as_int(hn::Eq(rounded, x)), sum, hn::Or(sum, set(1)));
#endif
    } else if constexpr (mode == RoundingMode::stochastic) {
      const VU sum = truncated_sum(x, binade);
      const VF rounded = minus_aligner(as_float(sum), binade);
      return one_if(hn::RebindMask(di, carries(u, rounded, binade, random)), sum);
    } else {
      static_assert(handled<mode>, "no rounding by the adder in vectors");
    }
  }

  /// x + C toward zero, for 0 <= x < C.
  HWY_INLINE VU truncated_sum(VF x, VU binade) const { return as_bits(plus_aligner<to_zero>(x, binade)); }

  /// The sum's sign bit is that of x, for those whom it disturbs to take off.
  HWY_INLINE VU directed_sum(VU x, VU binade) const {
    return as_bits(plus_aligner<direction>(as_float(x), hn::OrAnd(binade, x, set(sign_bit))));
  }

  /// Whether the dropped bits as a fraction of 2^32 (truncated), plus the random fraction, reach 2^32. Subnormal
  /// carriers count as zero: narrow_plan() admits only formats for which that is right.
  HWY_INLINE hn::Mask<DU> carries(VU u, VF rounded, VU binade, VU random) const {
    // What was cut off, in units of 2^-32 of the last kept bit: exact.
    const VF rest = hn::Sub(as_float(u), rounded);
    const Bits scale = static_cast<Bits>(2 * Carrier<T>::format.bias + 32 + fraction_bits - plan_.tail)
                       << fraction_bits;
    if constexpr (sizeof(T) == 4) {
#if HALFULP_EMBEDDED_ROUNDING
      const VF cut_off = hn::Mul(rest, as_float(hn::Sub(set(scale), binade)));
      const VU tail = VU{_mm512_maskz_cvttps_epu32(0xffff, cut_off.raw)};
      return hn::Lt(hn::Add(tail, random), tail);
#else
      // It reaches 2^32 - random exactly if it does the least float that is no less.
      const VF minus_cut_off = hn::Mul(rest, as_float(hn::Sub(set(scale + sign_bit), binade)));
      const VF low = hn::ConvertTo(d, hn::BitCast(di, random));  // random, or random - 2^32
      const VF limit = hn::IfNegativeThenElse(low, low, hn::Sub(low, hn::Set(d, T{4294967296})));
      return hn::RebindMask(du, hn::Le(minus_cut_off, limit));
#endif
    } else {
      const VF cut_off = hn::Mul(rest, as_float(hn::Sub(set(scale), binade)));
      const VF from_2_52 = as_float(hn::Or(random, hn::BitCast(du, hn::Set(d, T{0x1p52}))));  // 2^52 + random
      return hn::RebindMask(du, hn::Ge(cut_off, hn::Sub(hn::Set(d, T{0x1p52 + 0x1p32}), from_2_52)));
    }
  }

  const NarrowPlan<Bits>& plan_;
};

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
