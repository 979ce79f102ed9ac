// Exact arithmetic, rounded once. Each operation reads: unpack, specials, exact integer result, round and pack.
//
// All functions: operands and result are code words of `f`; upper bits of operands must be zero.
// `random` supplies random_bits bits and is ignored in the deterministic modes.
// U is std::uint64_t for precisions up to 24 and uint128 above; `Wide<p>` picks it.
// Precondition: f.has_zero (E8M0 has conversions only).
#pragma once

#include <halfulp/emulation/operand.hpp>

#include <utility>

namespace halfulp {

/// x + y for non-zero normalized values: the one place where exponents are aligned.
template <class U>
constexpr Rounded sum(const FloatFormat& f, const Rounding& rounding, Exact<U> x, Exact<U> y, std::uint64_t random) {
  if (x.exponent < y.exponent) std::swap(x, y);
  // x has zeros below its significand, so a jammed last bit of y survives addition and subtraction.
  const U aligned = shift_right_jam(y.significand, x.exponent - y.exponent);
  if (x.sign == y.sign) return round_pack<U>(f, rounding, {x.sign, x.exponent, x.significand + aligned}, random);
  if (x.significand == aligned) return zero_sum(f, rounding);
  if (x.significand < aligned) return round_pack<U>(f, rounding, {y.sign, x.exponent, aligned - x.significand}, random);
  return round_pack<U>(f, rounding, {x.sign, x.exponent, x.significand - aligned}, random);
}

/// IEEE 754 addition.
template <class U>
constexpr Rounded add(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                      std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a), y = unpack(f, rounding, b);
  if (x.kind == Kind::nan || y.kind == Kind::nan) return nan_result(f, rounding, {a, b});
  if (x.kind == Kind::infinite || y.kind == Kind::infinite) {
    if (x.kind == y.kind && x.sign != y.sign) return invalid(f, rounding);
    return infinite(f, rounding, x.kind == Kind::infinite ? x.sign : y.sign);
  }
  if (x.kind == Kind::zero && y.kind == Kind::zero)
    return x.sign == y.sign ? Rounded{f.zero(x.sign), 0} : zero_sum(f, rounding);
  if (x.kind == Kind::zero) return round_pack(f, rounding, normalized<U>(y), random);
  if (y.kind == Kind::zero) return round_pack(f, rounding, normalized<U>(x), random);
  return sum(f, rounding, normalized<U>(x), normalized<U>(y), random);
}

/// IEEE 754 subtraction: a + (-b), except that a NaN keeps its sign.
template <class U>
constexpr Rounded sub(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                      std::uint64_t random = 0) {
  const bool flip = !f.is_nan(b) && !(f.magnitude(b) == 0 && !f.has_negative_zero());
  return add<U>(f, rounding, a, flip ? b ^ f.sign_mask() : b, random);
}

/// IEEE 754 multiplication.
template <class U>
constexpr Rounded mul(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                      std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a), y = unpack(f, rounding, b);
  const bool sign = x.sign != y.sign;
  if (x.kind == Kind::nan || y.kind == Kind::nan) return nan_result(f, rounding, {a, b});
  if (x.kind == Kind::infinite || y.kind == Kind::infinite) {
    if (x.kind == Kind::zero || y.kind == Kind::zero) return invalid(f, rounding);
    return infinite(f, rounding, sign);
  }
  if (x.kind == Kind::zero || y.kind == Kind::zero) return {f.zero(sign), 0};
  return round_pack<U>(f, rounding, {sign, x.exponent + y.exponent, U{x.significand} * y.significand}, random);
}

/// IEEE 754 fusedMultiplyAdd: a * b + c, rounded once. Inf * 0 + NaN raises invalid (7.2 leaves it open).
template <class U>
constexpr Rounded fma(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                      std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a), y = unpack(f, rounding, b), z = unpack(f, rounding, c);
  const bool sign = x.sign != y.sign;
  const bool zero_product = x.kind == Kind::zero || y.kind == Kind::zero;
  const bool infinite_product = x.kind == Kind::infinite || y.kind == Kind::infinite;
  if (x.kind == Kind::nan || y.kind == Kind::nan || z.kind == Kind::nan) {
    Rounded result = nan_result(f, rounding, {a, b, c});
    if (zero_product && infinite_product) result.flags |= flag::invalid;
    return result;
  }
  if (zero_product && infinite_product) return invalid(f, rounding);
  if (infinite_product) {
    if (z.kind == Kind::infinite && z.sign != sign) return invalid(f, rounding);
    return infinite(f, rounding, sign);
  }
  if (z.kind == Kind::infinite) return infinite(f, rounding, z.sign);
  if (zero_product) {
    if (z.kind == Kind::zero) return z.sign == sign ? Rounded{f.zero(sign), 0} : zero_sum(f, rounding);
    return round_pack(f, rounding, normalized<U>(z), random);
  }
  const auto product = normalized<U>(sign, x.exponent + y.exponent, U{x.significand} * y.significand);
  if (z.kind == Kind::zero) return round_pack(f, rounding, product, random);
  return sum(f, rounding, product, normalized<U>(z), random);
}

/// x / y for operands that are not NaN: the one place that divides.
template <class U>
constexpr Rounded quotient(const FloatFormat& f, const Rounding& rounding, const Operand& x, const Operand& y,
                           std::uint64_t random) {
  const bool sign = x.sign != y.sign;
  if (x.kind == y.kind && (x.kind == Kind::zero || x.kind == Kind::infinite)) return invalid(f, rounding);
  if (x.kind == Kind::infinite) return infinite(f, rounding, sign);
  if (y.kind == Kind::zero) return infinite(f, rounding, sign, flag::divide_by_zero);
  if (x.kind == Kind::zero || y.kind == Kind::infinite) return {f.zero(sign), 0};

  // Long division in two digits of `digit` bits: the quotient lies in (1/2, 2), so at least
  // 2 * digit - 1 >= precision + random_bits + 2 bits of it come out; the remainder is jammed.
  constexpr int digit = sizeof(U) == 16 ? 60 : 30;
  const int shift_x = f.precision() - bit_length(x.significand), shift_y = f.precision() - bit_length(y.significand);
  const U numerator = U{x.significand} << shift_x, denominator = U{y.significand} << shift_y;
  const U high = (numerator << digit) / denominator, rest = (numerator << digit) % denominator;
  const U low = (rest << digit) / denominator;
  const bool sticky = (rest << digit) % denominator != 0;
  const int exponent = x.exponent - shift_x - (y.exponent - shift_y) - 2 * digit;
  return round_pack<U>(f, rounding, {sign, exponent, (high << digit) | low | U{sticky}}, random);
}

/// IEEE 754 division.
template <class U>
constexpr Rounded div(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                      std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a), y = unpack(f, rounding, b);
  if (x.kind == Kind::nan || y.kind == Kind::nan) return nan_result(f, rounding, {a, b});
  return quotient<U>(f, rounding, x, y, random);
}

/// 1 / a, as by division: rcp(+-0) = +-Inf with divide-by-zero, rcp(+-Inf) = +-0. The format need not have the
/// value 1.
template <class U>
constexpr Rounded rcp(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {a});
  return quotient<U>(f, rounding, {Kind::finite, false, 0, 1}, x, random);
}

/// IEEE 754 squareRoot; sqrt(-0) = -0.
template <class U>
constexpr Rounded sqrt(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {a});
  if (x.kind == Kind::zero) return {f.zero(x.sign), 0};
  if (x.sign) return invalid(f, rounding);
  if (x.kind == Kind::infinite) return infinite(f, rounding, false);

  // Schoolbook root, two bits of the radicand a step, until enough bits for any mode are known.
  const std::uint64_t radicand = x.significand << (x.exponent & 1);
  const int pairs = (bit_length(radicand) + 1) / 2;
  const int steps = f.precision() + max_random_bits + 2;
  U root = 0, rest = 0;
  for (int i = 1; i <= steps; ++i) {
    const std::uint64_t next = i <= pairs ? (radicand >> (2 * (pairs - i))) & 3 : 0;
    rest = (rest << 2) | next;
    const U trial = (root << 2) | 1;
    root <<= 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1;
    }
  }
  const int exponent = (x.exponent - (x.exponent & 1)) / 2 - (steps - pairs);
  return round_pack<U>(f, rounding, {false, exponent - 1, (root << 1) | U{rest != 0}}, random);
}

/// IEEE 754 remainder: a - n*b with n the integer nearest a/b, ties to even. Always exact.
template <class U>
constexpr Rounded rem(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                      std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, a), y = unpack(f, rounding, b);
  if (x.kind == Kind::nan || y.kind == Kind::nan) return nan_result(f, rounding, {a, b});
  if (x.kind == Kind::infinite || y.kind == Kind::zero) return invalid(f, rounding);
  if (x.kind == Kind::zero) return {f.zero(x.sign), 0};
  if (y.kind == Kind::infinite) return round_pack(f, rounding, normalized<U>(x), random);

  // On the finer of the two exponents: rest = |a| mod |b|, and whether the quotient is odd.
  uint128 divisor = y.significand, rest = x.significand;
  bool odd = false;
  const int apart = x.exponent - y.exponent;
  if (apart >= 0) {
    odd = ((rest / divisor) & 1) != 0;
    rest %= divisor;
    for (int i = 0; i < apart; ++i) {
      rest <<= 1;
      odd = rest >= divisor;
      if (odd) rest -= divisor;
    }
  } else if (-apart < 64) {
    divisor <<= -apart;
    odd = ((rest / divisor) & 1) != 0;
    rest %= divisor;
  } else {
    divisor = rest << 2;  // |a| < |b| / 2: the quotient is zero
  }
  bool sign = x.sign;
  if (2 * rest > divisor || (2 * rest == divisor && odd)) {
    rest = divisor - rest;
    sign = !sign;
  }
  if (rest == 0) return {f.zero(x.sign), 0};
  return round_pack<uint128>(f, rounding, {sign, apart >= 0 ? y.exponent : x.exponent, rest}, random);
}

}  // namespace halfulp
