// Rounding a vector of products or running sums to the format of a stage. Included once for each instruction set
// (Highway, foreach_target.h).
//
// Floats carry the values of formats with up to 22 bits of precision. The environment rounds in the stage's direction.
// In the directed modes and toward zero, rounding twice, to float and then to the format, therefore equals rounding
// once. To nearest this holds for sums of p bits if 24 >= 2 p + 2 (Figueroa 1995), and for products if 2 p <= 24,
// because these are exact. Elsewhere (`odd_product`, `odd_sum`) the first rounding is to odd, which keeps ties apart
// for the second (Boldo & Melquiond 2008: 24 >= p + 2).
//
// Ties away, ties toward zero and rounding to odd are no directions of an environment. It truncates, and the stage adds
// half a unit before, or sets the last bit of what was inexact. Truncating twice is harmless for ties away: half a unit
// goes up, with or without more behind it. For ties toward zero it is harmless where rounding twice is harmless for
// ties to even. Rounding to odd must know of everything that was cut off.
//
// Sums of values of a format are multiples of its smallest subnormal, so only products have to consider emin. Sums are
// rounded in fewer steps: to nearest by a multiplication, toward zero, to odd and with other ties as integers. The
// adder and the multiplication lose the sign of zeros; the caller derives it from the operands' signs
// (Plan::negative_zero).
#if defined(HALFULP_PRODUCTS_ROUNDER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_PRODUCTS_ROUNDER_INL
#undef HALFULP_PRODUCTS_ROUNDER_INL
#else
#define HALFULP_PRODUCTS_ROUNDER_INL
#endif

#include <halfulp/emulation/array/lanes-inl.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <hwy/highway.h>

#include <stdexcept>
#include <type_traits>

#if defined(__GNUC__) && !defined(__clang__)
// gcc 12's own _mm512_undefined_ps (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

HWY_BEFORE_NAMESPACE();
namespace halfulp::products::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr hn::CappedTag<float, panel_columns> d;
inline constexpr hn::RebindToUnsigned<decltype(d)> du;
inline constexpr hn::RebindToSigned<decltype(d)> di;
using V = hn::Vec<decltype(d)>;
using VU = hn::Vec<decltype(du)>;

#if HALFULP_EMBEDDED_ROUNDING
/// One of two neighbours (or equals): the odd one.
HWY_INLINE V odd_of(V low, V high) {
  return hn::IfThenElse(hn::RebindMask(d, hn::TestBit(hn::BitCast(du, low), hn::Set(du, 1))), low, high);
}
#endif

template <bool odd>
HWY_INLINE V multiplied(V a, V b) {
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (odd)
    return odd_of(V{_mm512_mul_round_ps(a.raw, b.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)},
                  V{_mm512_mul_round_ps(a.raw, b.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::Mul(a, b);
}
template <Direction direction, bool odd>
HWY_INLINE V added(V a, V b) {
#if !HALFULP_EMBEDDED_ROUNDING
  constexpr int environment = direction < Direction::zero ? array::HWY_NAMESPACE::to_nearest
                                                          : array::HWY_NAMESPACE::to_zero;
  if constexpr (odd) return array::HWY_NAMESPACE::add_to_odd<environment>(d, a, b);
#else
  if constexpr (odd)
    return odd_of(V{_mm512_add_round_ps(a.raw, b.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)},
                  V{_mm512_add_round_ps(a.raw, b.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::Add(a, b);
}
template <bool odd>
HWY_INLINE V multiplied_and_added(V a, V b, V s) {
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (odd)
    return odd_of(V{_mm512_fmadd_round_ps(a.raw, b.raw, s.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)},
                  V{_mm512_fmadd_round_ps(a.raw, b.raw, s.raw, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)});
#endif
  return hn::MulAdd(a, b, s);
}

template <Fix fix>
HWY_INLINE V fixed(const Rounder& rule, V rounded, V v) {
  const V max = hn::Set(d, rule.max), least = hn::Set(d, -rule.max);
  // NaN is what the adder makes of Inf and NaN: comparisons are such that it counts as beyond.
  const auto exchanged = [&](V x, V limit, V otherwise) HWY_ATTR {  // unless x <= limit
    const V beyond = hn::Set(d, rule.beyond);
#if HALFULP_EMBEDDED_ROUNDING
    return V{_mm512_mask_mul_ps(otherwise.raw, _mm512_cmp_ps_mask(x.raw, limit.raw, _CMP_NLE_UQ), v.raw, beyond.raw)};
#else
    return hn::IfThenElse(hn::Le(x, limit), otherwise, hn::Mul(v, beyond));
#endif
  };
  if constexpr (fix == Fix::none || fix == Fix::watched || fix == Fix::late) return rounded;
  if constexpr (fix == Fix::clamp) return hn::Min(hn::Max(rounded, least), max);
  if constexpr (fix == Fix::clamp_keep)
    return hn::IfThenElse(hn::Eq(rounded, rounded), hn::Min(hn::Max(rounded, least), max), v);
  if constexpr (fix == Fix::over) return exchanged(hn::Abs(rounded), max, rounded);
  if constexpr (fix == Fix::over_up) return exchanged(rounded, max, hn::Max(rounded, least));
  if constexpr (fix == Fix::over_down) return exchanged(least, rounded, hn::Min(rounded, max));
}

/// The power of two of v, with its sign or without; of products at least 2^emin.
template <bool is_signed, bool product>
HWY_INLINE V power_of(const Rounder& rule, V v) {
  const V power = hn::BitCast(d, hn::And(hn::BitCast(du, v), hn::Set(du, is_signed ? 0xff80'0000u : 0x7f80'0000u))),
          emin = hn::Set(d, rule.emin);
  if constexpr (!product) return power;
  if constexpr (!is_signed) return hn::Max(power, emin);
#if HALFULP_EMBEDDED_ROUNDING
  return V{_mm512_range_ps(power.raw, emin.raw, 0b0011)};  // the larger magnitude, the first one's sign
#else
  return hn::CopySignToAbs(hn::Max(hn::Abs(power), emin), v);
#endif
}

#if !HALFULP_EMBEDDED_ROUNDING
/// A sum rounded to odd by the adder, in an environment that truncates. `lost`: lanes in which v was truncated itself.
template <Fix fix, class M>
HWY_INLINE V aligned_to_odd(const Rounder& rule, V v, M lost) {
  const V scale = hn::Set(d, rule.scale), power = power_of<true, false>(rule, v), sum = hn::MulAdd(power, scale, v);
  const auto inexact = hn::RebindMask(du, hn::Ne(hn::NegMulAdd(power, scale, sum), v));
  // The last one kept is the last one of the sum.
  const VU odd = hn::IfThenElseZero(hn::Or(inexact, lost), hn::Set(du, 1));
  return fixed<fix>(rule, hn::NegMulAdd(power, scale, hn::BitCast(d, hn::Or(hn::BitCast(du, sum), odd))), v);
}
#endif

/// v rounded by the adder. Where it truncates C has the sign of v; otherwise C = 1.5 * 2^k serves both signs.
template <Direction direction, bool product, Fix fix>
HWY_INLINE V aligned(const Rounder& rule, V v) {
  const V scale = hn::Set(d, rule.scale), power = power_of<direction >= Direction::zero, product>(rule, v);
  V moved = v;
  if constexpr (direction == Direction::ties_to_zero)
    moved = hn::NegMulAdd(v, hn::Set(d, 0x1p-24f), v);  // the next float toward zero
  if constexpr (direction == Direction::ties_away || direction == Direction::ties_to_zero)
    moved = hn::MulAdd(power, hn::Set(d, rule.half), moved);
  V sum = hn::MulAdd(power, scale, moved);
  if constexpr (direction == Direction::odd) {
    const auto inexact = hn::RebindMask(du, hn::Ne(hn::NegMulAdd(power, scale, sum), v));
    const VU bits = hn::BitCast(du, sum);  // the last one kept is the last one of the sum
    sum = hn::BitCast(d, hn::IfThenElse(inexact, hn::Or(bits, hn::Set(du, 1)), bits));
  }
  return fixed<fix>(rule, hn::NegMulAdd(power, scale, sum), v);
}

/// v rounded to nearest, to p bits, at most split_bits (Veltkamp 1968). Let k = 24 - p, 2^e <= |v| < 2^(e+1), and u =
/// 2^(e-p+1) the last place that is kept. 2^k v is a multiple of u, and an even one where v is a tie. v (2^k - 1) lies
/// between 2^(e+k) and 2^(e+k+1), so it is rounded to a multiple of u: it is 2^k v less v rounded. Where v is next to
/// 2^e it lies just below 2^(e+k) and is rounded to a multiple of u / 2. There |v| - 2^e is less than u / 4, so that v
/// is rounded to 2^e all the same.
template <Fix fix>
HWY_INLINE V split(const Rounder& rule, V v) {
  const V less = hn::Mul(v, hn::Set(d, rule.shift() - 1));
  return fixed<fix>(rule, hn::MulSub(v, hn::Set(d, rule.shift()), less), v);
}

#if HALFULP_EMBEDDED_ROUNDING
/// A product of numbers of at most split_bits, rounded to as many: to nearest, up or down. The aligner is 2^k |a b|, or
/// that of emin where it is larger. The sum of aligner and product has the last place u that is kept (see split), but
/// for products next to a power of two. Beyond 2^(e+k+1) it has 2 u: there the product is rounded to 2^(e+1), and the
/// aligner is a multiple of 4 u, because a product has at most 22 bits. Below 2^(e+k) it has u / 2: there the two have
/// different signs, and the product is rounded to 2^e, to nearest or toward zero. `shifted` is 2^k b: a float, because
/// the product's format holds b.
template <Direction direction, Fix fix>
HWY_INLINE V split_product(const Rounder& rule, V a, V b, V shifted) {
  constexpr int larger_magnitude = direction == Direction::down ? 0b1111 : 0b1011;  // negative, positive
  const V least = hn::Set(d, rule.scale * rule.emin),
          aligner{_mm512_range_ps(hn::Mul(a, shifted).raw, least.raw, larger_magnitude)};
  return fixed<fix>(rule, hn::Sub(hn::MulAdd(a, b, aligner), aligner), hn::Mul(a, b));
}
#endif
/// Whether a stage's products can be rounded so: by these instructions, and by its rule.
template <Way way, Direction direction>
inline constexpr bool can_split = HALFULP_EMBEDDED_ROUNDING && way == Way::aligned && direction < Direction::zero;
HWY_INLINE bool may_split(const Rounder& rule) { return rule.tail >= 24 - split_bits; }

/// Overflow carries into the exponent, Inf and NaN (whose tails are zeros) stay.
template <Direction direction>
HWY_INLINE V linear(const Rounder& rule, V v) {
  const VU x = hn::BitCast(du, v), mask = hn::Set(du, (std::uint32_t{1} << rule.tail) - 1);
  VU sum = x;
  if constexpr (direction == Direction::nearest) {
    const VU last = hn::Set(du, std::uint32_t{1} << rule.tail);
    sum = hn::Add(x, hn::ShiftRight<1>(mask));
    const auto odd = hn::TestBit(x, last);
#if HALFULP_EMBEDDED_ROUNDING
    sum = VU{_mm512_mask_add_epi32(sum.raw, odd.raw, sum.raw, hn::Set(du, 1).raw)};
#else
    sum = hn::Sub(sum, hn::VecFromMask(du, odd));
#endif
  }
  if constexpr (direction == Direction::up || direction == Direction::down) {
    const auto negative = hn::BitCast(du, hn::BroadcastSignBit(hn::BitCast(di, x)));
    sum = hn::Add(x, direction == Direction::up ? hn::AndNot(negative, mask) : hn::And(negative, mask));
  }
  if constexpr (direction == Direction::ties_to_zero) sum = hn::Add(x, hn::ShiftRight<1>(mask));
  if constexpr (direction == Direction::ties_away) sum = hn::Add(x, hn::Xor(mask, hn::ShiftRight<1>(mask)));
  if constexpr (direction == Direction::odd) sum = hn::Or(x, hn::Add(hn::And(x, mask), mask));  // carries if not 0
  return hn::BitCast(d, hn::AndNot(mask, sum));
}

/// v rounded; `product`: it considers emin.
template <Way way, Direction direction, bool product, Fix fix>
HWY_INLINE V rounded(const Rounder& rule, V v) {
  if constexpr (way == Way::aligned) return aligned<direction, product, fix>(rule, v);
  if constexpr (way == Way::linear) return linear<direction>(rule, v);
  if constexpr (way == Way::normal) return aligned<direction, false, Fix::none>(rule, v);
  return v;
}

/// A sum rounded to nearest (split), up or down. One beyond the largest value is not rounded: it becomes what the last
/// operation would subtract, or subtract from, which has its sign and is at least 2^(k-1) + 1 times as large, k >= 2. A
/// product is at most the largest value: it brings no such sum back, and every step makes it larger, up to an infinity.
/// Whether v is beyond is known while it is rounded; the result need not be looked at.
template <Direction direction>
HWY_INLINE V rounded_or_beyond(const Rounder& rule, V v) {
  if constexpr (direction == Direction::nearest) {
    const V shift = hn::Set(d, rule.shift()), less = hn::Mul(v, hn::Set(d, rule.shift() - 1));
    const auto kept = hn::Le(hn::Abs(v), hn::Set(d, rule.last_kept()));
#if HALFULP_EMBEDDED_ROUNDING
    return V{_mm512_mask3_fmsub_ps(v.raw, shift.raw, less.raw, kept.raw)};
#else
    return hn::IfThenElse(kept, hn::MulSub(v, shift, less), less);
#endif
  } else {
    constexpr bool up = direction == Direction::up;
    const V max = hn::Set(d, up ? rule.max : -rule.max),  // beyond it is Inf, on the other side is the largest value
        scale = hn::Set(d, up ? rule.scale : -rule.scale),
            inside = up ? hn::Max(v, hn::Neg(max)) : hn::Min(v, hn::Neg(max)),
            power = power_of<false, false>(rule, inside), sum = hn::MulAdd(power, scale, inside);
    const auto kept = up ? hn::Le(inside, max) : hn::Ge(inside, max);
#if HALFULP_EMBEDDED_ROUNDING
    return V{_mm512_mask3_fnmadd_ps(power.raw, scale.raw, sum.raw, kept.raw)};
#else
    return hn::IfThenElse(kept, hn::NegMulAdd(power, scale, sum), sum);
#endif
  }
}

/// rounded() of a number that is a multiple of the format's smallest subnormal, as sums are. To nearest it has at most
/// split_bits, unless it was rounded to odd before.
template <Way way, Direction direction, Fix fix, bool odd = false>
HWY_INLINE V rounded_sum(const Rounder& rule, V v) {
  if constexpr (fix == Fix::late) return rounded_or_beyond<direction>(rule, v);
  else if constexpr (way == Way::normal) return rounded_sum<Way::aligned, direction, Fix::none, odd>(rule, v);
  else if constexpr (way == Way::aligned && direction == Direction::nearest && !odd) return split<fix>(rule, v);
  // Clamping tells infinities by the NaN that the adder makes of them.
  else if constexpr (way == Way::aligned && direction >= Direction::zero && fix != Fix::clamp_keep)
    return fixed<fix>(rule, linear<direction>(rule, v), v);
  else return rounded<way, direction, false, fix>(rule, v);
}

template <auto value>
using Is = std::integral_constant<decltype(value), value>;

/// f(fix) for a rule whose products and sums have the same: that of the sums, if these are aligned.
template <Way product, Way sum, Direction direction, class F>
HWY_INLINE void with_fix_of_both(const StepRule& rule, F f) {
  if constexpr (product != Way::aligned && sum != Way::aligned) return f(Is<Fix::none>{});
  const Fix wanted = sum == Way::aligned ? rule.sum.fix : rule.product.fix;
  if (wanted == Fix::none) return f(Is<Fix::none>{});
  if (wanted == Fix::clamp_keep) return f(Is<Fix::clamp_keep>{});
  if constexpr (direction != Direction::zero) {
    if (wanted == Fix::over) return f(Is<Fix::over>{});
  }
  if constexpr (direction == Direction::up) {
    if (wanted == Fix::over_up) return f(Is<Fix::over_up>{});
  }
  if constexpr (direction == Direction::down) {
    if (wanted == Fix::over_down) return f(Is<Fix::over_down>{});
  }
  throw std::logic_error("products: these sums need another fix");
}

/// f(direction) for one of the environment's.
template <class F>
HWY_INLINE void with_direction_of_environment(Direction direction, F f) {
  switch (direction) {
    case Direction::nearest: return f(Is<Direction::nearest>{});
    case Direction::down: return f(Is<Direction::down>{});
    case Direction::up: return f(Is<Direction::up>{});
    case Direction::zero: return f(Is<Direction::zero>{});
    default: throw std::logic_error("products: these sums know the environment's directions");
  }
}

}  // namespace halfulp::products::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
