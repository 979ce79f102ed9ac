// Element-wise operations on values in a carrier, so that one more rounding gives the format's result.
//
// Let p be the format's precision. Products are exact in the carrier where it has 2p bits. Quotients and square roots
// of p-bit numbers are never closer to a (p + 1)-bit number than 2^-(2p + 1) of it, unless equal: rounded to nearest
// with 2p + 2 bits they stay on their side of every value and midpoint (Figueroa 1995). Sums, rounded in any direction
// there, stay on their side of every midpoint, so that the nearest modes may round them. Other modes and an fma need
// sums rounded to odd (Boldo & Melquiond 2008), or in the mode's own direction.
#if defined(HALFULP_ARRAY_ARITHMETIC_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_ARITHMETIC_INL
#undef HALFULP_ARRAY_ARITHMETIC_INL
#else
#define HALFULP_ARRAY_ARITHMETIC_INL
#endif

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/narrow-inl.hpp>

#include <stdexcept>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HALFULP_EMBEDDED_ROUNDING
/// What rounded<direction>() gives in all directions, rounded as `sums` says.
template <Sums sums, class D, class F>
HWY_INLINE hn::Vec<D> in_direction(D d, F rounded) {
  if constexpr (sums == Sums::nearest) return rounded.template operator()<_MM_FROUND_TO_NEAREST_INT>();
  if constexpr (sums == Sums::zero) return rounded.template operator()<_MM_FROUND_TO_ZERO>();
  const auto low = rounded.template operator()<_MM_FROUND_TO_NEG_INF>();
  if constexpr (sums == Sums::down) return low;
  const auto high = rounded.template operator()<_MM_FROUND_TO_POS_INF>();
  if constexpr (sums == Sums::up) return high;
  // The same, or neighbours: one of these is odd. (An exact zero is that of `high`, +0.)
  const hn::RebindToUnsigned<D> du;
  return hn::IfThenElse(hn::RebindMask(d, hn::TestBit(hn::BitCast(du, low), hn::Set(du, 1))), low, high);
}
#endif

/// The direction of the environment in which operations are rounded as `sums` says, or may be where that does not
/// matter.
constexpr int direction_of(Sums sums) {
  if (sums == Sums::nearest) return to_nearest;
  if (sums == Sums::up) return up;
  return sums == Sums::down ? down : to_zero;
}

/// a + b rounded as `sums` says. Without embedded rounding, `environment` is the direction that the environment has:
/// that of `sums`, or to nearest where these are rounded to odd.
template <Sums sums, int environment, class D, class V = hn::Vec<D>>
HWY_INLINE V add_in(D d, V a, V b) {
  if constexpr (sums == Sums::nearest) return hn::Add(a, b);
#if HALFULP_EMBEDDED_ROUNDING
  return in_direction<sums>(d, [=]<int direction>() HWY_ATTR { return add_toward<direction>(d, a, b); });
#else
  if constexpr (sums == Sums::odd) return add_to_odd<environment>(d, a, b);
  static_assert(sums == Sums::odd || environment == direction_of(sums));
  return hn::Add(a, b);
#endif
}

template <Operation op, Sums sums, int environment, class D, class V = hn::Vec<D>>
HWY_INLINE V combine(D d, V a, V b, V c) {
  if constexpr (op == Operation::add) return add_in<sums, environment>(d, a, b);
  else if constexpr (op == Operation::sub) return add_in<sums, environment>(d, a, hn::Neg(b));
  else if constexpr (op == Operation::mul) return hn::Mul(a, b);
  else if constexpr (op == Operation::div) return hn::Div(a, b);
  else if constexpr (op == Operation::sqrt) return hn::Sqrt(a);
  else if constexpr (op == Operation::fma) return add_in<sums, environment>(d, hn::Mul(a, b), c);
  else static_assert(handled<op>, "no kernel in vectors");
}

/// The same in float for formats with float's exponents and a precision of at most 11, whose results may be subnormal
/// floats or lie beyond them. Right where the result, rounded to the format, does not overflow, and not lost().
///
/// Sums of such numbers are multiples of float's last place: nothing is lost below. Quotients that are subnormal are
/// further than 2^-149 from every value and midpoint of the format that they do not equal, but for zero: a quotient is
/// a / b with integers below 2^p times powers of two, h = 2^(-126-p) the format's smallest midpoint and m a multiple of
/// it, so |a / b - m| = |a - m b| / b > h / 2 / 2^p = 2^(-127-2p). So any direction will do; only what vanishes must
/// not become an exact zero where modes see the difference (to odd: quotients away from zero). Products keep their 2p
/// bits where they are not below 2^-126; there embedded rounding to odd (or in the direction asked for) is as good.
/// With it the sum of an fma, too, is rounded once, however small or large the product is.
template <Operation op, Sums sums, int environment, class D, class V = hn::Vec<D>>
HWY_INLINE V combine_short(D d, V a, V b, V c) {
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (op == Operation::mul)
    return in_direction<sums>(d, [=]<int direction>() HWY_ATTR { return mul_toward<direction>(d, a, b); });
  if constexpr (op == Operation::fma)
    return in_direction<sums>(d, [=]<int direction>() HWY_ATTR { return fma_toward<direction>(d, a, b, c); });
  if constexpr (op == Operation::div && sums == Sums::odd)
    return hn::CopySignToAbs(div_toward<_MM_FROUND_TO_POS_INF>(d, hn::Abs(a), hn::Abs(b)), hn::Xor(a, b));
  if constexpr (op == Operation::div)
    return in_direction<sums>(d, [=]<int direction>() HWY_ATTR { return div_toward<direction>(d, a, b); });
#endif
#if HWY_NATIVE_FMA
  if constexpr (op == Operation::fma && sums != Sums::odd) return hn::MulAdd(a, b, c);
#endif
#if HWY_NATIVE_FMA && !HALFULP_EMBEDDED_ROUNDING
  if constexpr (op == Operation::fma) return odd_if_truncated(d, hn::Mul(a, b), c, hn::MulAdd(a, b, c));
#endif
  if constexpr (op == Operation::div && sums == Sums::odd) {
    const hn::RebindToUnsigned<D> du;
    const V quotient = hn::Div(a, b), least = hn::BitCast(d, hn::Set(du, 1));
    const auto vanished = hn::And(hn::And(hn::Eq(quotient, hn::Zero(d)), hn::Lt(hn::Abs(b), hn::Inf(d))),
                                  hn::Ne(a, hn::Zero(d)));
    return hn::Or(quotient, hn::IfThenElseZero(vanished, least));
  }
  return combine<op, sums, environment>(d, a, b, c);
}

#if !HALFULP_EMBEDDED_ROUNDING
/// Whether combine_short() may round a product before it, or its sum, can be rounded to odd; or, without fma, twice.
template <Operation op, Sums sums>
inline constexpr bool may_lose = (op == Operation::mul && sums == Sums::odd) ||
                                 (op == Operation::fma && (sums == Sums::odd || !HWY_NATIVE_FMA));
#endif

/// Lanes in which a product is neither a normal float nor an exact zero; `op` fma: or may be beyond floats.
template <Operation op, class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> loses(D d, V a, V b) {
  using Limits = std::numeric_limits<hn::TFromD<D>>;
  const V product = hn::Abs(hn::Mul(a, b));
  const auto tiny = hn::And(hn::Gt(hn::Min(hn::Abs(a), hn::Abs(b)), hn::Zero(d)),
                            hn::Lt(product, hn::Set(d, Limits::min())));
  return op == Operation::fma ? hn::Or(tiny, hn::Ge(product, hn::Set(d, Limits::max()))) : tiny;
}

/// Lanes in which `sum`, a + b rounded to nearest, is not exact, or one of the three is not finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> inexact(D d, V a, V b, V sum) {
  return hn::Not(hn::Eq(error_of_sum(d, a, b, sum), hn::Zero(d)));  // NaN equals nothing
}

/// Calls f with one of array_operations as a compile-time constant.
template <class F>
HWY_INLINE void with_array_operation(Operation operation, F f) {
  with_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op> tag) HWY_ATTR {
    if constexpr (info(op).arrays) f(tag);
    else throw std::logic_error("array arithmetic: no kernel for " + std::string(info(op).name));
  });
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
