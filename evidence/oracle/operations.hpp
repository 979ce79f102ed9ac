// The oracle's operations: IEEE 754-2019, 5.3 to 5.6, 6 and 7, each from its definition; DESIGN's edges.
#pragma once

#include <halfulp/evidence/oracle/oracle.hpp>

#include <initializer_list>
#include <utility>

namespace oracle {

/// What an operation yields before rounding: everything that does not depend on the mode.
struct Outcome {
  enum Kind { number, zero, zero_sum, infinite, nan, code } kind;
  bool sign = false;  ///< of zero and infinite
  Flags flags = 0;
  BracketedNumber place{};  ///< of a number
  std::uint64_t word = 0;   ///< of code; of nan: the first NaN operand
  bool fresh = false;       ///< nan: no operand was one
  std::uint64_t last = 0;   ///< of nan: the NaN operand that comes first in b, c, a (b, a)
};

inline Outcome invalid() { return {Outcome::nan, false, flag::invalid, {}, 0, true}; }
inline Outcome infinity(bool sign, Flags flags = 0) { return {Outcome::infinite, sign, flags}; }
inline Outcome zero(bool sign) { return {Outcome::zero, sign}; }
inline Outcome any_nan(const FloatFormat& f, std::initializer_list<std::uint64_t> codes) {
  Outcome o{Outcome::nan, false, 0, {}, 0, true};
  for (const std::uint64_t c : codes) {
    if (is_signaling(f, c)) o.flags = flag::invalid;
    if (is_nan(f, c) && std::exchange(o.fresh, false)) o.word = c;
  }
  o.last = o.word;
  for (const std::uint64_t* c = codes.end() - 1; c > codes.begin(); --c)
    if (is_nan(f, *c)) o.last = *c;
  return o;
}
template <class Int>
Outcome number(const FloatFormat& f, bool sign, const Magnitude<Int>& x) {
  return {Outcome::number, sign, 0, locate(f, sign, x)};
}
/// A signed integer times 2^exponent; zero is the sum of opposite terms.
template <class Int>
Outcome signed_number(const FloatFormat& f, const Int& n, int exponent) {
  if (n == 0) return {Outcome::zero_sum};
  return number(f, n < 0, Magnitude<Int>{n < 0 ? Int(-n) : n, 1, exponent});
}

/// The result of an outcome under a rounding.
inline Rounded finish(const FloatFormat& f, const Rounding& r, const Outcome& o, std::uint64_t random = 0) {
  switch (o.kind) {
    case Outcome::number: return settle(f, r, o.place, random);
    case Outcome::zero: return {zero_code(f, o.sign), 0};
    case Outcome::zero_sum: return {zero_code(f, r.mode == RoundingMode::toward_negative), 0};  // 6.3
    case Outcome::code: return {o.word, o.flags};
    case Outcome::nan:
      if (!o.fresh && r.nan == halfulp::NanRule::propagate) return {o.word | quiet(f), o.flags};
      if (!o.fresh && r.nan == halfulp::NanRule::cuda_fp64) return {o.last | quiet(f), o.flags};
      if (!o.fresh && r.nan == halfulp::NanRule::keep) return {o.word, o.flags};
      return {nan_code(f, r.nan), o.flags};
    case Outcome::infinite: break;
  }
  if (has_infinity(f)) return {signed_code(f, max_code(f) + 1, o.sign), o.flags};
  if (has_nan(f) && r.overflow == Overflow::ieee) return {nan_code(f, r.nan), o.flags};
  return {signed_code(f, max_code(f), o.sign), o.flags};
}

/// An operand as an integer multiple of 2^unit.
template <class Int>
Int multiple(const Value& v, int unit) {
  const Int n = shifted(Int(v.significand), v.significand == 0 ? 0 : v.exponent - unit);
  return v.sign ? Int(-n) : n;
}

template <class Int>
Outcome fma(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const Value x = decode(f, a, flush), y = decode(f, b, flush), z = decode(f, c, flush);
  const bool zero_times_inf = (x.zero() && y.kind == Class::infinite) || (x.kind == Class::infinite && y.zero());
  if (is_nan(f, a) || is_nan(f, b) || is_nan(f, c)) {
    Outcome o = any_nan(f, {a, b, c});
    if (zero_times_inf) o.flags |= flag::invalid;
    return o;
  }
  const bool sign = x.sign != y.sign, infinite = x.kind == Class::infinite || y.kind == Class::infinite;
  if (zero_times_inf || (infinite && z.kind == Class::infinite && z.sign != sign)) return invalid();
  if (infinite) return infinity(sign);
  if (z.kind == Class::infinite) return infinity(z.sign);
  const bool zero_product = x.zero() || y.zero();
  if (zero_product && z.zero() && sign == z.sign) return zero(sign);
  if (zero_product && z.zero()) return {Outcome::zero_sum};
  const int unit = zero_product ? z.exponent
                   : z.zero()   ? x.exponent + y.exponent
                                : std::min(x.exponent + y.exponent, z.exponent);
  Int product = zero_product ? Int(0)
                             : shifted(Int(x.significand) * Int(y.significand), x.exponent + y.exponent - unit);
  if (sign) product = -product;
  return signed_number<Int>(f, product + multiple<Int>(z, unit), unit);
}

template <class Int>
Outcome sum(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b, bool subtract) {
  if (is_nan(f, a) || is_nan(f, b)) return any_nan(f, {a, b});
  const Value x = decode(f, a, flush);
  Value y = decode(f, b, flush);
  if (subtract) y.sign = !y.sign;
  if (y.zero() && !has_negative_zero(f)) y.sign = false;
  if (x.kind == Class::infinite && y.kind == Class::infinite && x.sign != y.sign) return invalid();
  if (x.kind == Class::infinite) return infinity(x.sign);
  if (y.kind == Class::infinite) return infinity(y.sign);
  if (x.zero() && y.zero()) return x.sign == y.sign ? zero(x.sign) : Outcome{Outcome::zero_sum};
  const int unit = x.zero() ? y.exponent : y.zero() ? x.exponent : std::min(x.exponent, y.exponent);
  return signed_number<Int>(f, multiple<Int>(x, unit) + multiple<Int>(y, unit), unit);
}

template <class Int>
Outcome mul(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b) {
  if (is_nan(f, a) || is_nan(f, b)) return any_nan(f, {a, b});
  const Value x = decode(f, a, flush), y = decode(f, b, flush);
  const bool sign = x.sign != y.sign;
  if (x.kind == Class::infinite || y.kind == Class::infinite) return x.zero() || y.zero() ? invalid() : infinity(sign);
  if (x.zero() || y.zero()) return zero(sign);
  return number(f, sign, Magnitude<Int>{Int(x.significand) * Int(y.significand), 1, x.exponent + y.exponent});
}

template <class Int>
Outcome div(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b) {
  if (is_nan(f, a) || is_nan(f, b)) return any_nan(f, {a, b});
  const Value x = decode(f, a, flush), y = decode(f, b, flush);
  const bool sign = x.sign != y.sign;
  if (x.kind == Class::infinite) return y.kind == Class::infinite ? invalid() : infinity(sign);
  if (y.kind == Class::infinite) return zero(sign);
  if (y.zero()) return x.zero() ? invalid() : infinity(sign, flag::divide_by_zero);
  if (x.zero()) return zero(sign);
  return number(f, sign, Magnitude<Int>{Int(x.significand), Int(y.significand), x.exponent - y.exponent});
}

template <class Int>
Outcome rem(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b) {
  if (is_nan(f, a) || is_nan(f, b)) return any_nan(f, {a, b});
  const Value x = decode(f, a, flush), y = decode(f, b, flush);
  if (x.kind == Class::infinite || y.zero()) return invalid();
  if (x.zero()) return zero(x.sign);
  if (y.kind == Class::infinite) return number(f, x.sign, Magnitude<Int>{Int(x.significand), 1, x.exponent});
  const int unit = std::min(x.exponent, y.exponent);
  const Int p = shifted(Int(x.significand), x.exponent - unit), q = shifted(Int(y.significand), y.exponent - unit);
  Int n = p / q;  // |a| / |b| to the nearest integer, ties to even
  const Int twice = 2 * (p - n * q);
  if (twice > q || (twice == q && n % 2 != 0)) ++n;
  const Int rest = x.sign ? Int(n * q - p) : Int(p - n * q);
  return rest == 0 ? zero(x.sign) : signed_number<Int>(f, rest, unit);
}

template <class Int>
Outcome sqrt(const FloatFormat& f, bool flush, std::uint64_t a) {
  if (is_nan(f, a)) return any_nan(f, {a});
  const Value x = decode(f, a, flush);
  if (x.zero()) return zero(x.sign);
  if (x.sign) return invalid();
  if (x.kind == Class::infinite) return infinity(false);
  return number(f, false, Magnitude<Int>{Int(x.significand), 1, x.exponent, true});
}

/// The reciprocal, as the quotient of 1 and a number; 1 / 0 is the pole of 7.3.
template <class Int>
Outcome rcp(const FloatFormat& f, bool flush, std::uint64_t a) {
  if (is_nan(f, a)) return any_nan(f, {a});
  const Value x = decode(f, a, flush);
  if (x.kind == Class::infinite) return zero(x.sign);
  if (x.zero()) return infinity(x.sign, flag::divide_by_zero);
  return number(f, x.sign, Magnitude<Int>{1, Int(x.significand), -x.exponent});
}

/// rSqrt (9.2.1): the square root of a rational.
template <class Int>
Outcome rsqrt(const FloatFormat& f, bool flush, std::uint64_t a) {
  if (is_nan(f, a)) return any_nan(f, {a});
  const Value x = decode(f, a, flush);
  if (x.zero()) return infinity(x.sign, flag::divide_by_zero);
  if (x.sign) return invalid();
  if (x.kind == Class::infinite) return zero(false);
  return number(f, false, Magnitude<Int>{1, Int(x.significand), -x.exponent, true});
}

/// a against b as real numbers: -1, 0, 1. Neither is a NaN.
template <class Int>
int compare(const Value& a, const Value& b) {
  if (a.kind == Class::infinite || b.kind == Class::infinite) {
    const int x = a.kind == Class::infinite ? (a.sign ? -1 : 1) : 0,
              y = b.kind == Class::infinite ? (b.sign ? -1 : 1) : 0;
    return x < y ? -1 : x > y;
  }
  const int unit = a.zero() ? b.exponent : b.zero() ? a.exponent : std::min(a.exponent, b.exponent);
  const Int x = multiple<Int>(a, unit), y = multiple<Int>(b, unit);
  return x < y ? -1 : x > y;
}

/// minimumNumber, maximumNumber (9.6): a NaN counts as missing, -0 < +0. The result is an operand, never rounded.
template <class Int>
Outcome min_max(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b, bool want_max) {
  Outcome o = any_nan(f, {a, b});
  if (is_nan(f, a) && is_nan(f, b)) return o;
  std::uint64_t chosen = is_nan(f, a) ? b : a;
  if (!is_nan(f, a) && !is_nan(f, b)) {
    const Value x = decode(f, a, flush), y = decode(f, b, flush);
    int order = compare<Int>(x, y);
    if (order == 0) order = x.sign == y.sign ? 0 : x.sign ? -1 : 1;
    chosen = (order < 0) == want_max ? b : a;
  }
  const Value x = decode(f, chosen, flush);
  return {Outcome::code, false, o.flags, {}, x.zero() ? zero_code(f, x.sign) : chosen};
}

enum class Relation { eq, lt, le };
/// compareQuietEqual, compareSignalingLess, compareSignalingLessEqual (5.6.1).
template <class Int>
Outcome relation(const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b, Relation which) {
  if (is_nan(f, a) || is_nan(f, b)) {
    const Flags flags = which == Relation::eq ? any_nan(f, {a, b}).flags : flag::invalid;
    return {Outcome::code, false, flags, {}, 0};
  }
  const int order = compare<Int>(decode(f, a, flush), decode(f, b, flush));
  return {Outcome::code,
          false,
          0,
          {},
          which == Relation::eq   ? order == 0
          : which == Relation::lt ? order < 0
                                  : order <= 0};
}

// --- conversions -------------------------------------------------------------------------------------------------

inline Rounded convert_nan(const FloatFormat& from, const FloatFormat& to, const Rounding& r, std::uint64_t code) {
  if (!has_nan(to)) return {max_code(to), flag::invalid};
  const Flags flags = is_signaling(from, code) ? flag::invalid : 0;
  if (r.nan == halfulp::NanRule::canonical || r.nan == halfulp::NanRule::cuda) return {nan_code(to, r.nan), flags};
  const bool sign = (code & sign_bit(from)) != 0;
  if (to.nonfinite == NonFinite::nan_all_ones) return {signed_code(to, bits(magnitude_bits(to)), sign), flags};
  if (to.nonfinite != NonFinite::ieee) return {nan_code(to, r.nan), flags};
  // The payload as a fraction of one: leading bits stay leading bits.
  cpp_int fraction = from.nonfinite == NonFinite::ieee ? code & bits(from.fraction_bits) : 0;
  fraction = (fraction << to.fraction_bits) >> from.fraction_bits;
  const bool stays_signaling = r.nan == halfulp::NanRule::keep && from.nonfinite == NonFinite::ieee;
  const auto payload = static_cast<std::uint64_t>(fraction) | (stays_signaling ? 0 : quiet(to));
  return {signed_code(to, (bits(to.exponent_bits) << to.fraction_bits) + payload, sign), flags};
}

template <class Int>
Rounded convert(const FloatFormat& from, const FloatFormat& to, const Rounding& r, std::uint64_t code,
                std::uint64_t random = 0) {
  if (is_nan(from, code)) return oracle::convert_nan(from, to, r, code);
  const Value x = decode(from, code, r.flush_inputs);
  if (x.kind == Class::infinite) {
    if (x.sign && !to.is_signed) return {nan_code(to, r.nan), flag::invalid};
    if (r.overflow == Overflow::saturate)
      return {signed_code(to, max_code(to), x.sign), flag::overflow | flag::inexact};
    return finish(to, r, infinity(x.sign, has_infinity(to) ? 0 : flag::overflow | flag::inexact));
  }
  if (x.zero()) return to.has_zero ? Rounded{zero_code(to, x.sign), 0} : Rounded{0, flag::underflow | flag::inexact};
  return settle(to, r, locate(to, x.sign, Magnitude<Int>{Int(x.significand), 1, x.exponent}), random);
}

/// convertFromInt: an exact integer, given as a cpp_int.
inline Rounded from_integer(const cpp_int& n, const FloatFormat& to, const Rounding& r, std::uint64_t random = 0) {
  if (n == 0) return to.has_zero ? Rounded{0, 0} : Rounded{0, flag::underflow | flag::inexact};
  return settle(to, r, locate(to, n < 0, Magnitude<cpp_int>{abs(n)}), random);
}

/// A finite value rounded to an integer, as a cpp_int, and whether it had to be.
inline std::pair<cpp_int, bool> rounded_integer(const Value& x, const Rounding& r, std::uint64_t random) {
  if (x.zero()) return {0, false};
  cpp_int below;
  const Bracket b = bracket(Magnitude<cpp_int>{x.significand, 1, x.exponent}, 0, below);
  const cpp_int n = below + (goes_away(r, x.sign, b, (below & 1) != 0, random) ? 1 : 0);
  return {x.sign ? cpp_int(-n) : n, !b.exact};
}

/// convertToInteger into `width` bits: the bits of the two's complement or unsigned result.
inline Rounded to_integer(const FloatFormat& from, int width, bool is_signed, const Rounding& r, std::uint64_t code,
                          std::uint64_t random = 0) {
  const cpp_int highest = (cpp_int(1) << (is_signed ? width - 1 : width)) - 1,
                lowest = is_signed ? cpp_int(-highest - 1) : 0;
  const auto encoded = [&](cpp_int n, Flags flags) {
    if (n < 0) n += cpp_int(1) << width;
    return Rounded{static_cast<std::uint64_t>(n), flags};
  };
  const bool x86 = r.int_overflow == halfulp::IntOverflow::x86;
  const cpp_int indefinite = is_signed ? lowest : highest;
  if (is_nan(from, code)) return encoded(x86 ? indefinite : 0, flag::invalid);
  const Value x = decode(from, code, r.flush_inputs);
  cpp_int n = x.sign ? cpp_int(lowest - 1) : cpp_int(highest + 1);
  bool inexact = false;
  if (x.kind == Class::finite) std::tie(n, inexact) = rounded_integer(x, r, random);
  if (n < lowest || n > highest) return encoded(x86 ? indefinite : n < lowest ? lowest : highest, flag::invalid);
  return encoded(n, inexact && r.integer_inexact ? flag::inexact : 0);
}

/// roundToIntegral (5.9): the operand's sign stays, also on zero; nothing underflows, so nothing is flushed.
inline Rounded round_to_integral(const FloatFormat& f, Rounding r, std::uint64_t code, std::uint64_t random = 0) {
  if (is_nan(f, code)) return finish(f, r, any_nan(f, {code}));
  const Value x = decode(f, code, r.flush_inputs);
  if (x.kind == Class::infinite) return {code, 0};
  const auto [n, inexact] = rounded_integer(x, r, random);
  r.flush_outputs = false;
  Rounded result{zero_code(f, x.sign), 0};
  if (n != 0) result = settle(f, r, locate(f, x.sign, Magnitude<cpp_int>{abs(n)}), random);
  if (inexact && r.integer_inexact) result.flags |= flag::inexact;
  return result;
}

}  // namespace oracle
