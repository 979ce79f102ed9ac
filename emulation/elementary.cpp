#include <halfulp/emulation/elementary.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace halfulp {
namespace {

namespace mp = boost::multiprecision;

/// Integers of a fixed width, without allocation.
template <unsigned bits>
using Fixed = mp::number<mp::cpp_int_backend<bits, bits, mp::unsigned_magnitude, mp::unchecked, void>>;

/// Bits that any mode needs above a sticky one: see Exact.
int bits_needed(const FloatFormat& f) { return f.precision() + max_random_bits + 2; }

/// 1 / sqrt(s * 2^exponent) for an even exponent. W takes bit_length(s) + bits + 5 bits.
template <class W>
Exact<uint128> reciprocal_root(std::uint64_t s, int exponent, int bits) {
  // Bit by bit the greatest root with s * root^2 <= 4^steps; rest is the difference.
  const int steps = bits + (bit_length(s) + 1) / 2;
  const W radicand = s;
  W root = s == 1 ? 1 : 0, rest = s == 1 ? 0 : 1;
  for (int i = 0; i < steps; ++i) {
    const W trial = radicand * ((root << 2) | 1);
    rest <<= 2;
    root <<= 1;
    if (rest >= trial) {
      rest -= trial;
      root |= 1;
    }
  }
  return {false, -exponent / 2 - steps - 1, (static_cast<uint128>(root) << 1) | uint128{rest != 0}};
}

/// floor(ln 2 * 2^width) or one less: ln 2 = 2 artanh(1/3) by its series, 32 bits more than wanted.
mp::cpp_int ln2_of(int width) {
  mp::cpp_int power = (mp::cpp_int(2) << (width + 32)) / 3, sum = 0;
  for (int n = 1; power != 0; n += 2, power /= 9) sum += power / n;
  return sum >> 32;
}

template <class Integer>
inline constexpr int widest = 0;  ///< fraction bits of which every product fits; 0: any
template <>
inline constexpr int widest<Fixed<256>> = 120;
template <>
inline constexpr int widest<Fixed<512>> = 248;

template <class Integer>
Integer ln2(int width) {
  if constexpr (widest<Integer> == 0) {
    return ln2_of(width);
  } else {
    static const Integer constant(ln2_of(widest<Integer>));
    return constant >> (widest<Integer> - width);
  }
}

/// e^x in fixed-point numbers of `width` fraction bits; nothing where they leave a bit open.
///
/// |x| = k ln 2 + r, e^r = (e^(r / 2^8))^(2^8), the inner one by its Taylor series. In units of 2^-width: k < 2^13
/// times the error of ln 2, at most 2, and two cuts leave r wrong by less than 2^15, r / 2^8 by less than 2^7 + 2. The
/// series has less than width / 8 terms, each wrong by less than 4. Squaring doubles the relative error and adds 1,
/// eight times, and e^r <= 2: less than 2^9 (2^7 + 4 + width / 2), for which 2^10 (width + 256) is room enough.
template <class Integer>
std::optional<Exact<uint128>> exp_attempt(bool negative, std::uint64_t significand, int exponent, int bits, int width) {
  const int shift = exponent + width;
  const Integer x = shift >= 0 ? Integer(Integer(significand) << shift)
                               : Integer(-shift < 64 ? significand >> -shift : 0);
  const Integer unit = ln2<Integer>(width), whole = x / unit;
  Integer r = x - whole * unit;
  int k = static_cast<int>(whole);
  if (negative) {  // e^-(k ln 2 + r) = 2^-(k + 1) e^(ln 2 - r)
    r = unit - r;
    k = -k - 1;
  }
  constexpr int halvings = 8;
  r >>= halvings;
  Integer power = Integer(1) << width, term = power;
  for (unsigned n = 1; term != 0; ++n) {
    term = ((term * r) >> width) / n;
    power += term;
  }
  for (int i = 0; i < halvings; ++i) power = (power * power) >> width;

  const Integer error = Integer(width + 256) << 10;
  const int cut = width + 1 - bits;
  const Integer below = (power - error) >> cut, above = (power + error) >> cut;
  if (below != above) return std::nullopt;
  // By Lindemann e^x is transcendental: there is always something below the last bit.
  return Exact<uint128>{false, k - bits, (static_cast<uint128>(below) << 1) | 1};
}

/// log2(2^whole * m) in fixed-point numbers of `width` fraction bits; nothing where they leave a bit open. m lies
/// between sqrt(1/2) and sqrt(2), `below` 1 or above it, and |m - 1| / (m + 1) = n / d < 0.172.
///
/// log2 (1 + z) / (1 - z) = 2 artanh(z) / ln 2, and artanh(z) = z (1 + z^2 / 3 + z^4 / 5 + ...), with z = n / d. The
/// leading zeros of z are kept apart: z = 2^-zeros times a number in [1/2, 1). In units of 2^-width that number is
/// wrong by 1, z^2 < 1/32 by 2, each power of it by 4, each term by 3, of which there are at most width / 5 + 2; the
/// product and the quotient, which ln 2 (wrong by 2) makes wrong by 5 more, are off by less than 1.5 (3 width / 5 + 10)
/// < width + 32.
template <class Integer>
std::optional<Exact<uint128>> log2_attempt(int whole, bool below, std::uint64_t n, std::uint64_t d, int bits,
                                           int width) {
  int zeros = bit_length(d) - bit_length(n);
  if (n << zeros >= d) --zeros;
  const Integer one = Integer(1) << width, z = (Integer(n) << (width + zeros)) / d;
  const Integer square = (z * z) >> (width + 2 * zeros);
  Integer sum = one, power = one;
  for (unsigned k = 3;; k += 2) {
    power = (power * square) >> width;
    if (power == 0) break;
    sum += power / k;
  }
  Integer value = (((z * sum) >> width) << width) / ln2<Integer>(width);  // of 2^(1 - zeros)
  int unit = -width;
  if (whole == 0) {
    unit += 1 - zeros;
  } else {
    const Integer part = value >> (zeros - 1), integer = Integer(static_cast<unsigned>(std::abs(whole))) << width;
    value = (whole < 0) == below ? Integer(integer + part) : Integer(integer - part);
  }
  const Integer error = width + 32;
  const int cut = static_cast<int>(msb(value)) + 1 - bits;
  if (cut < 1) return std::nullopt;
  const Integer least = (value - error) >> cut, most = (value + error) >> cut;
  if (least != most) return std::nullopt;
  // Irrational, since no power of x is one of 2: there is always something behind the last bit.
  return Exact<uint128>{whole == 0 ? below : whole < 0, unit + cut - 1, (static_cast<uint128>(least) << 1) | 1};
}

/// The first answer of attempt(type, width), `type` the integers that take so many fraction bits. Digits behind the
/// last bit that are all 0 or all 1 are as rare as chance has it: twice the width ends it (Ziv 1991).
template <class Attempt>
Exact<uint128> refined(int first_width, Attempt attempt) {
  constexpr int small = widest<Fixed<256>>, medium = widest<Fixed<512>>;
  for (int width = first_width;;) {
    const auto result = width <= small    ? attempt(std::type_identity<Fixed<256>>{}, width)
                        : width <= medium ? attempt(std::type_identity<Fixed<512>>{}, width)
                                          : attempt(std::type_identity<mp::cpp_int>{}, width);
    if (result) return *result;
    width = width < small ? small : width < medium ? medium : 2 * width;
  }
}

}  // namespace

Rounded rsqrt(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random) {
  const Operand x = unpack(f, rounding, a);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {a});
  if (x.kind == Kind::zero) return infinite(f, rounding, x.sign, flag::divide_by_zero);
  if (x.sign) return invalid(f, rounding);
  if (x.kind == Kind::infinite) return {f.zero(), 0};

  const int odd = x.exponent & 1, bits = bits_needed(f);
  const auto root = f.precision() <= 24 ? reciprocal_root<uint128>(x.significand << odd, x.exponent - odd, bits)
                                        : reciprocal_root<Fixed<256>>(x.significand << odd, x.exponent - odd, bits);
  return round_pack(f, rounding, root, random);
}

Exact<uint128> exp_bits(bool negative, std::uint64_t significand, int exponent, int bits, int first_width) {
  const auto one = uint128{1} << bits;
  if (bit_length(significand) + exponent <= -bits - 2)  // |x| < 2^-(bits + 2): 1 and something, or as much below it
    return negative ? Exact<uint128>{false, -bits - 1, 2 * one - 1} : Exact<uint128>{false, -bits, one | 1};
  return refined(std::max(first_width, bits), [&]<class Integer>(std::type_identity<Integer>, int width) {
    return exp_attempt<Integer>(negative, significand, exponent, bits, width);
  });
}

Rounded exp(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random) {
  const Operand x = unpack(f, rounding, a);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {a});
  if (x.kind == Kind::infinite) return x.sign ? Rounded{f.zero(), 0} : infinite(f, rounding, false);
  if (x.kind == Kind::zero) return round_pack<uint128>(f, rounding, {false, 0, 1}, random);

  // No format reaches to 2^2000, nor down to 2^-2000: every number beyond rounds like every other.
  constexpr int far = 4000;
  if (bit_length(x.significand) + x.exponent > 12)
    return round_pack<uint128>(f, rounding, {false, x.sign ? -far : far, 3}, random);
  return round_pack(f, rounding, exp_bits(x.sign, x.significand, x.exponent, bits_needed(f)), random);
}

Exact<uint128> log2_bits(std::uint64_t significand, int exponent, int bits, int first_width) {
  // x = 2^whole * significand / power, the power of two that leaves a quotient between sqrt(1/2) and sqrt(2).
  const int length = bit_length(significand);
  const bool upper = uint128{significand} * significand >> (2 * length - 1) != 0;
  const std::uint64_t power = std::uint64_t{1} << (upper ? length : length - 1);
  const int whole = exponent + (upper ? length : length - 1);
  const bool below = significand < power;
  const std::uint64_t difference = below ? power - significand : significand - power;
  return refined(std::max(first_width, bits), [&]<class Integer>(std::type_identity<Integer>, int width) {
    return log2_attempt<Integer>(whole, below, difference, significand + power, bits, width);
  });
}

Rounded log2(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random) {
  const Operand x = unpack(f, rounding, a);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {a});
  if (x.kind == Kind::zero) return infinite(f, rounding, true, flag::divide_by_zero);
  if (x.sign) return invalid(f, rounding);
  if (x.kind == Kind::infinite) return infinite(f, rounding, false);
  if (!std::has_single_bit(x.significand))
    return round_pack(f, rounding, log2_bits(x.significand, x.exponent, bits_needed(f)), random);
  const int power = x.exponent + bit_length(x.significand) - 1;
  if (power == 0) return {f.zero(), 0};
  return round_pack<uint128>(f, rounding, {power < 0, 0, static_cast<unsigned>(std::abs(power))}, random);
}

}  // namespace halfulp
