// Element-wise operations on values in a carrier, so that one more rounding gives the format's result.
//
// Let p be the format's precision. Products are exact in the carrier where it has 2p bits. Quotients and square roots of
// p-bit numbers are never closer to a (p + 1)-bit number than 2^-(2p + 1) of it, unless equal: rounded to nearest with
// 2p + 2 bits they stand on the side of every value and midpoint where they belong (Figueroa 1995). Sums rounded to
// nearest do so for nearest-even alone; the others are rounded to odd (Boldo & Melquiond 2008), made of the sum and
// its exact error (Knuth's TwoSum).
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

/// a + b rounded as `sums` says. Without embedded rounding, directed sums are rounded to odd, from which a directed
/// rounding to fewer bits gives the same; what is left to see to is the sign of an exactly zero sum.
template <Sums sums, class D, class V = hn::Vec<D>>
HWY_INLINE V add_in(D d, V a, V b) {
  if constexpr (sums == Sums::nearest) return hn::Add(a, b);
  const hn::RebindToSigned<D> di;
#if HALFULP_EMBEDDED_ROUNDING
  if constexpr (sums == Sums::zero) return add_toward<_MM_FROUND_TO_ZERO>(d, a, b);
  const V low = add_toward<_MM_FROUND_TO_NEG_INF>(d, a, b);
  if constexpr (sums == Sums::down) return low;
  const V high = add_toward<_MM_FROUND_TO_POS_INF>(d, a, b);
  if constexpr (sums == Sums::up) return high;
  const auto inexact = hn::RebindMask(di, hn::Lt(low, high));
  const auto truncated = hn::BitCast(di, add_toward<_MM_FROUND_TO_ZERO>(d, a, b));
  return hn::BitCast(d, hn::IfThenElse(inexact, hn::Or(truncated, hn::Set(di, 1)), truncated));
#else
  const V sum = hn::Add(a, b);
  const V b_part = hn::Sub(sum, a);
  const V error = hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
  // Truncated, then odd if anything was lost. (The error of an infinite sum is NaN: nothing lost.)
  const auto lost = hn::RebindMask(di, hn::Or(hn::Lt(error, hn::Zero(d)), hn::Gt(error, hn::Zero(d))));
  const auto opposed = hn::Lt(hn::BitCast(di, hn::Xor(error, sum)), hn::Zero(di));
  auto bits = sub_one_if(di, hn::And(lost, opposed), hn::BitCast(di, sum));
  bits = hn::Or(bits, hn::IfThenElseZero(lost, hn::Set(di, 1)));
  if constexpr (sums == Sums::down) {
    const auto zero = hn::RebindMask(di, hn::Eq(sum, hn::Zero(d)));
    const auto sign = hn::And(hn::BitCast(di, hn::Or(a, b)), hn::BitCast(di, hn::SignBit(d)));
    bits = hn::Or(bits, hn::IfThenElseZero(zero, sign));
  }
  return hn::BitCast(d, bits);
#endif
}

template <Operation op, Sums sums, class D, class V = hn::Vec<D>>
HWY_INLINE V combine(D d, V a, V b, V c) {
  if constexpr (op == Operation::add) return add_in<sums>(d, a, b);
  else if constexpr (op == Operation::sub) return add_in<sums>(d, a, hn::Neg(b));
  else if constexpr (op == Operation::mul) return hn::Mul(a, b);
  else if constexpr (op == Operation::div) return hn::Div(a, b);
  else if constexpr (op == Operation::sqrt) return hn::Sqrt(a);
  else return add_in<sums>(d, hn::Mul(a, b), c);
}

/// Calls f with the operation as a compile-time constant.
template <class F>
HWY_INLINE void with_operation(Operation op, F f) {
  using enum Operation;
  switch (op) {
    case add: return f(std::integral_constant<Operation, add>{});
    case sub: return f(std::integral_constant<Operation, sub>{});
    case mul: return f(std::integral_constant<Operation, mul>{});
    case div: return f(std::integral_constant<Operation, div>{});
    case sqrt: return f(std::integral_constant<Operation, sqrt>{});
    case fma: return f(std::integral_constant<Operation, fma>{});
    default: throw std::logic_error("array arithmetic: add, sub, mul, div, sqrt, fma");
  }
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
