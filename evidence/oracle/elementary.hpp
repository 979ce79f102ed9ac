// The oracle's elementary functions: an interval of rationals around each result, refined until all of it rounds alike
// in every mode.
//
// e^|x| = (e^(|x| / 2^j))^(2^j), the inner one from its Taylor series; e^-|x| is its reciprocal. Both ends are dyadic
// and cut outwards, so e^x lies between them however much is cut; e^x itself is irrational for rational x != 0
// (Lambert 1768).
#pragma once

#include <halfulp/evidence/oracle/operations.hpp>

#include <cstdlib>
#include <optional>

namespace oracle {

/// low * 2^exponent < x < high * 2^exponent
struct Interval {
  cpp_int low, high;
  int exponent = 0;
};

/// n / 2^by rounded up.
inline cpp_int cut_up(const cpp_int& n, int by) { return (n + (cpp_int(1) << by) - 1) >> by; }

/// e^t around t = significand * 2^exponent > 0, its ends of at least `digits` bits.
inline Interval exp_of_positive(std::uint64_t significand, int exponent, int digits) {
  const int squarings = std::max(0, exponent + length(cpp_int(significand)) + 4);  // t / 2^squarings < 1/16
  const int fraction = digits + squarings + 16, shift = exponent - squarings + fraction;
  const cpp_int s = significand, one = cpp_int(1) << fraction;
  const cpp_int low = shift >= 0 ? cpp_int(s << shift) : cpp_int(s >> -shift);
  const cpp_int high = shift >= 0 ? low : cut_up(s, -shift);
  Interval sum{one, one, -fraction};
  cpp_int low_term = one, high_term = one;
  for (int n = 1; high_term > 1; ++n) {
    low_term = (low_term * low >> fraction) / n;
    high_term = (cut_up(high_term * high, fraction) + n - 1) / n;
    sum.low += low_term;
    sum.high += high_term;
  }
  sum.high += 1;  // all later terms together are less than the last one
  for (int i = 0; i < squarings; ++i) {
    sum.low *= sum.low;
    sum.high *= sum.high;
    const int cut = length(sum.high) - fraction - 2;
    sum.low >>= cut;
    sum.high = cut_up(sum.high, cut);
    sum.exponent = 2 * sum.exponent + cut;
  }
  return sum;
}

/// The same place, but for what only equality with its ends would change.
inline bool same_place(const BracketedNumber& p, const BracketedNumber& q) {
  return p.below == q.below && p.tiny == q.tiny && p.bracket.tail == q.bracket.tail &&
         p.unbounded.tail == q.unbounded.tail && p.unbounded_odd == q.unbounded_odd && p.last_below == q.last_below;
}
/// The bracket of a number that is neither a value nor a midpoint nor anything else with an end.
inline Bracket irrational(const Bracket& b) { return {false, b.tail < 0x1'0000'0000u ? -1 : 1, b.tail, false}; }

/// A number in its place, of which both ends of an interval are: it is irrational.
inline Outcome irrational(BracketedNumber p) {
  p.bracket = irrational(p.bracket);
  if (p.tiny) p.unbounded = irrational(p.unbounded);
  return {Outcome::number, p.sign, 0, p};
}

inline Magnitude<cpp_int> inverse(const Magnitude<cpp_int>& x) { return {x.denominator, x.numerator, -x.exponent}; }

inline Outcome exp(const FloatFormat& f, bool flush, std::uint64_t a) {
  if (is_nan(f, a)) return any_nan(f, {a});
  const Value x = decode(f, a, flush);
  if (x.kind == Class::infinite) return x.sign ? zero(false) : infinity(false);
  if (x.zero()) return number(f, false, Magnitude<cpp_int>{1});

  // e > 2: beyond these ends e^x > 2^(emax + 2), or less than 2^-40 of the smallest value. One number stands for all.
  const int top = static_cast<int>(max_code(f) >> f.fraction_bits) - f.bias + 2,
            bottom = emin(f) - f.fraction_bits - 40;
  const auto reaches = [&](int n) { return cpp_int(x.significand) << (x.exponent + 1100) >= cpp_int(n) << 1100; };
  if (!x.sign && reaches(std::max(top, 1))) return number(f, false, Magnitude<cpp_int>{3, 1, top});
  if (x.sign && reaches(std::max(-bottom, 0))) {
    BracketedNumber p;
    p.tiny = true;
    p.bracket = {false, -1, 0, false};
    return {Outcome::number, false, 0, p};
  }

  const int near_one = std::max(0, -(x.exponent + length(cpp_int(x.significand))));
  for (int digits = near_one + 2 * f.precision() + 64;; digits *= 2) {
    const Interval y = exp_of_positive(x.significand, x.exponent, digits);
    const Magnitude<cpp_int> low{y.low, 1, y.exponent}, high{y.high, 1, y.exponent};
    const BracketedNumber below = locate(f, false, x.sign ? inverse(high) : low),
                          above = locate(f, false, x.sign ? inverse(low) : high);
    if (same_place(below, above)) return irrational(below);
  }
}

/// floor(2^digits * log2(m)), m the significand as a number in [1, 2): squaring it doubles the logarithm, whose next
/// bit is whether the square reaches 2. Nothing where an interval around the squares leaves a bit open.
inline std::optional<cpp_int> log2_of_fraction(std::uint64_t significand, int digits) {
  const int fraction = digits + 64;
  const cpp_int two = cpp_int(2) << fraction;
  cpp_int low = cpp_int(significand) << (fraction + 1 - length(cpp_int(significand))), high = low, bits = 0;
  for (int i = 0; i < digits; ++i) {
    low = low * low >> fraction;
    high = cut_up(high * high, fraction);
    bits <<= 1;
    if (low >= two) {
      bits += 1;
      low >>= 1;
      high = cut_up(high, 1);
    } else if (high >= two) {
      return {};
    }
  }
  return bits;
}

/// log2 (9.2.1). It is irrational unless x is a power of two.
inline Outcome log2(const FloatFormat& f, bool flush, std::uint64_t a) {
  if (is_nan(f, a)) return any_nan(f, {a});
  const Value x = decode(f, a, flush);
  if (x.zero()) return infinity(true, flag::divide_by_zero);
  if (x.sign) return invalid();
  if (x.kind == Class::infinite) return infinity(false);

  const int whole = x.exponent + length(cpp_int(x.significand)) - 1;
  if (cpp_int(x.significand) == cpp_int(1) << (whole - x.exponent))
    return whole == 0 ? zero(false) : number(f, whole < 0, Magnitude<cpp_int>{std::abs(whole)});
  for (int digits = 2 * f.precision() + 48;; digits *= 2) {
    const auto part = log2_of_fraction(x.significand, digits);
    if (!part) continue;
    // In units of 2^-digits: low < log2 x < low + 1, or as magnitudes the other way round.
    const cpp_int floor = whole * (cpp_int(1) << digits) + *part;
    const bool negative = floor < 0;
    const cpp_int low = negative ? cpp_int(-floor - 1) : floor, high = low + 1;
    if (low == 0) continue;
    const BracketedNumber below = locate(f, negative, Magnitude<cpp_int>{low, 1, -digits}),
                          above = locate(f, negative, Magnitude<cpp_int>{high, 1, -digits});
    if (same_place(below, above)) return irrational(below);
  }
}

}  // namespace oracle
