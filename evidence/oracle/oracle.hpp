// The independent judge: every result straight from its definition, by exact integers and rationals.
//
// It uses only the plain enums of emulation/rounding.hpp and the six stored fields of FloatFormat.
// A rounding mode is a choice between two neighbours, overflow is "rounded without a top, it exceeds the largest
// value", tininess is IEEE 754-2019, 7.5. Exact results are quotients of integers times a power of two, or square
// roots of such, and are decided by integer division and by squaring candidates.
//
// Int is cpp_int, or __int128 where it is known to suffice (formats of up to 5 exponent and 16 bits): every shift
// is checked. Tests and `halfulp verify` ask it.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>
#include <stdexcept>

namespace oracle {

using boost::multiprecision::cpp_int;
using halfulp::Flags, halfulp::FloatFormat, halfulp::NonFinite, halfulp::Overflow, halfulp::Rounded,
    halfulp::StochasticVariant, halfulp::Rounding, halfulp::RoundingMode;
namespace flag = halfulp::flag;
__extension__ using int128 = __int128;

// --- formats: IEEE 754-2019, 3.4; OCP OFP8 1.0, 5; OCP MX 1.0, 5.3; P3109 --------------------------------------

inline std::uint64_t bits(int n) { return n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1; }
inline int magnitude_bits(const FloatFormat& f) { return f.exponent_bits + f.fraction_bits; }
inline std::uint64_t sign_bit(const FloatFormat& f) { return f.is_signed ? std::uint64_t{1} << magnitude_bits(f) : 0; }
/// Exponent of the smallest normal value. E8M0 has no subnormals: its exponent field 0 is a normal one.
inline int emin(const FloatFormat& f) { return f.has_zero ? 1 - f.bias : -f.bias; }

/// The largest finite magnitude, as a code word.
inline std::uint64_t max_code(const FloatFormat& f) {
  const std::uint64_t ones = bits(magnitude_bits(f));
  switch (f.nonfinite) {
    case NonFinite::ieee: return ((bits(f.exponent_bits) - 1) << f.fraction_bits) + bits(f.fraction_bits);
    case NonFinite::nan_all_ones: return ones - 1;   // S.1111.111 is NaN
    case NonFinite::p3109: return ones - 1;          // all ones is Inf
    case NonFinite::nan_negative_zero: return ones;  // the NaN sits at -0
    case NonFinite::none: return ones;
  }
  throw std::logic_error("max_code");
}

enum class Class { nan, infinite, finite };
inline Class classify(const FloatFormat& f, std::uint64_t code) {
  const std::uint64_t magnitude = code & bits(magnitude_bits(f)), ones = bits(magnitude_bits(f));
  const bool negative_zero = f.is_signed && code == sign_bit(f);
  switch (f.nonfinite) {
    case NonFinite::ieee:
      if (magnitude >> f.fraction_bits != bits(f.exponent_bits)) return Class::finite;
      return (magnitude & bits(f.fraction_bits)) == 0 ? Class::infinite : Class::nan;
    case NonFinite::nan_all_ones: return magnitude == ones ? Class::nan : Class::finite;
    case NonFinite::nan_negative_zero: return negative_zero ? Class::nan : Class::finite;
    case NonFinite::p3109: return negative_zero ? Class::nan : magnitude == ones ? Class::infinite : Class::finite;
    case NonFinite::none: return Class::finite;
  }
  throw std::logic_error("classify");
}
inline bool has_infinity(const FloatFormat& f) {
  return f.nonfinite == NonFinite::ieee || f.nonfinite == NonFinite::p3109;
}
inline bool has_nan(const FloatFormat& f) { return f.nonfinite != NonFinite::none; }
inline bool has_negative_zero(const FloatFormat& f) {
  return f.is_signed && f.has_zero && classify(f, sign_bit(f)) == Class::finite;
}
inline bool is_nan(const FloatFormat& f, std::uint64_t code) { return classify(f, code) == Class::nan; }
/// IEEE 754, 6.2.1: the first bit of the fraction is set in quiet NaNs. Other formats have quiet NaNs only.
inline std::uint64_t quiet(const FloatFormat& f) {
  return f.nonfinite == NonFinite::ieee ? std::uint64_t{1} << (f.fraction_bits - 1) : 0;
}
inline bool is_signaling(const FloatFormat& f, std::uint64_t code) {
  return f.nonfinite == NonFinite::ieee && is_nan(f, code) && (code & quiet(f)) == 0;
}
inline std::uint64_t signed_code(const FloatFormat& f, std::uint64_t magnitude, bool sign) {
  return magnitude + (sign ? sign_bit(f) : 0);
}
inline std::uint64_t zero_code(const FloatFormat& f, bool sign) {
  return sign && has_negative_zero(f) ? sign_bit(f) : 0;
}

/// The NaN that starts here (0/0), or that stands for a NaN operand under a rule without payloads.
inline std::uint64_t nan_code(const FloatFormat& f, halfulp::NanRule rule) {
  const std::uint64_t ones = bits(magnitude_bits(f));
  switch (f.nonfinite) {
    case NonFinite::nan_all_ones: return ones;
    case NonFinite::nan_negative_zero:
    case NonFinite::p3109: return sign_bit(f);
    case NonFinite::none: return max_code(f);
    case NonFinite::ieee: break;
  }
  if (rule == halfulp::NanRule::cuda) return ones;
  const std::uint64_t positive = (bits(f.exponent_bits) << f.fraction_bits) + quiet(f);
  return rule == halfulp::NanRule::canonical ? positive : positive + sign_bit(f);
}

/// A decoded operand: (-1)^sign * significand * 2^exponent where finite.
struct Value {
  Class kind;
  bool sign;
  std::uint64_t significand;
  int exponent;
  bool zero() const { return kind == Class::finite && significand == 0; }
};
inline Value decode(const FloatFormat& f, std::uint64_t code, bool flush_inputs = false) {
  const std::uint64_t field = (code >> f.fraction_bits) & bits(f.exponent_bits),
                      fraction = code & bits(f.fraction_bits);
  const bool sign = (code & sign_bit(f)) != 0, subnormal = f.has_zero && field == 0;
  Value v{classify(f, code), sign, 0, 0};
  if (v.kind != Class::finite) return v;
  v.exponent = (subnormal ? 1 : static_cast<int>(field)) - f.bias - f.fraction_bits;
  v.significand = subnormal ? fraction : fraction + (std::uint64_t{1} << f.fraction_bits);
  if (subnormal && flush_inputs) v.significand = 0;
  if (v.significand == 0 && !has_negative_zero(f)) v.sign = false;
  return v;
}

// --- exact magnitudes ------------------------------------------------------------------------------------------

inline int length(const cpp_int& x) { return x == 0 ? 0 : static_cast<int>(msb(x)) + 1; }
inline int length(int128 x) {
  int n = 0;
  for (; x != 0; x >>= 1) ++n;
  return n;
}
inline cpp_int shifted(cpp_int x, int n) { return x << n; }
inline int128 shifted(int128 x, int n) {
  if (x != 0 && length(x) + n > 126) throw std::logic_error("oracle: __int128 is too narrow here");
  return x == 0 ? 0 : x << n;
}

/// The greatest integer whose square is at most n.
inline cpp_int floor_root(const cpp_int& n) { return sqrt(n); }
inline int128 floor_root(int128 n) {
  auto root = static_cast<int128>(std::sqrt(static_cast<double>(n)));
  while (root * root > n) --root;
  while ((root + 1) * (root + 1) <= n) ++root;
  return root;
}

/// A positive number: numerator / denominator * 2^exponent, or the square root of that.
template <class Int>
struct Magnitude {
  Int numerator;
  Int denominator = 1;
  int exponent = 0;
  bool root = false;
};

/// The greatest n with n * 2^unit <= x, and whether they are equal.
template <class Int>
struct Floor {
  Int n;
  bool exact;
};
template <class Int>
Floor<Int> floor_in(const Magnitude<Int>& x, int unit) {
  const int shift = x.exponent - (x.root ? 2 * unit : unit);
  const Int numerator = shift > 0 ? shifted(x.numerator, shift) : x.numerator;
  const Int denominator = shift < 0 ? shifted(x.denominator, -shift) : x.denominator;
  const Int quotient = numerator / denominator;
  const bool whole = quotient * denominator == numerator;
  if (!x.root) return {quotient, whole};
  const Int root = floor_root(quotient);
  if (root * root > quotient || (root + 1) * (root + 1) <= quotient) throw std::logic_error("oracle: floor_root");
  return {root, whole && root * root == quotient};
}

/// floor(log2(x)).
template <class Int>
int floor_log2(const Magnitude<Int>& x) {
  const int ratio = length(x.numerator) - length(x.denominator) + x.exponent;
  int l = x.root ? ratio >> 1 : ratio;  // at most one too large
  while (floor_in(x, l).n == 0) --l;
  return l;
}

// --- a number between its neighbours -----------------------------------------------------------------------------

/// x between below and below + 1, in units of the last place.
struct Bracket {
  bool exact = true;       ///< x is `below`
  int half = -1;           ///< x against the midpoint: -1 below, 0 at it, 1 above
  std::uint64_t tail = 0;  ///< floor((x - below) * 2^33)
  bool whole = true;       ///< nothing was lost by that floor
};
template <class Int>
Bracket bracket(const Magnitude<Int>& x, int unit, Int& below) {
  const auto [n, exact] = floor_in(x, unit - 33);
  below = n >> 33;
  const auto tail = static_cast<std::uint64_t>(n & Int{0x1'ffff'ffffu});
  constexpr std::uint64_t middle = 0x1'0000'0000u;
  return {exact && tail == 0, tail < middle ? -1 : tail == middle && exact ? 0 : 1, tail, exact};
}

/// Whether the neighbour farther from zero is chosen. `odd`: of the nearer neighbour; the farther has the other parity.
inline bool goes_away(const Rounding& r, bool sign, const Bracket& b, bool odd, std::uint64_t random) {
  if (b.exact) return false;
  switch (r.mode) {
    case RoundingMode::nearest_even: return b.half > 0 || (b.half == 0 && odd);
    case RoundingMode::nearest_away: return b.half >= 0;
    case RoundingMode::nearest_to_zero: return b.half > 0;
    case RoundingMode::toward_zero: return false;
    case RoundingMode::toward_positive: return !sign;
    case RoundingMode::toward_negative: return sign;
    case RoundingMode::to_odd: return !odd;
    case RoundingMode::stochastic: break;
  }
  // The tail rounded to random_bits bits by the variant, plus the random integer: the carry decides.
  const int cut = 33 - r.random_bits;
  std::uint64_t tail = b.tail >> cut;
  const std::uint64_t rest = b.tail & bits(cut), middle = std::uint64_t{1} << (cut - 1);
  const bool tie = rest == middle && b.whole, above = rest > middle || (rest == middle && !b.whole);
  switch (r.variant) {
    case StochasticVariant::truncate: break;
    case StochasticVariant::nearest_even: tail += above || (tie && (tail & 1) != 0); break;
    case StochasticVariant::nearest_odd: tail += above || (tie && (tail & 1) == 0); break;
    case StochasticVariant::nearest_up: tail += above || tie; break;
  }
  return tail + (random & bits(r.random_bits)) > bits(r.random_bits);
}

/// A non-zero number among the values of a format, whatever the mode.
struct BracketedNumber {
  bool sign = false;
  bool tiny = false;        ///< |x| < 2^emin
  std::uint64_t below = 0;  ///< code of the nearest value not beyond |x|, as if the exponent had no top
  Bracket bracket;
  // The same as if the exponent had no bottom either, for |x| < 2^emin:
  Bracket unbounded;
  bool unbounded_odd = false;  ///< parity of the code, the line of codes continued below zero
  bool last_below = false;     ///< the next unbounded value is 2^emin
};
template <class Int>
BracketedNumber locate(const FloatFormat& f, bool sign, const Magnitude<Int>& x) {
  const int l = floor_log2(x), lowest = emin(f), binade = std::max(l, lowest);
  BracketedNumber p;
  p.sign = sign;
  p.tiny = l < lowest;
  Int below;
  p.bracket = bracket(x, binade - f.fraction_bits, below);
  const auto hidden = std::uint64_t{1} << f.fraction_bits;
  const auto kept = static_cast<std::uint64_t>(below);
  const auto field = static_cast<std::uint64_t>(binade - lowest + (f.has_zero ? 1 : 0));
  p.below = kept < hidden ? kept : (field << f.fraction_bits) + kept - hidden;
  if (p.tiny) {
    p.unbounded = bracket(x, l - f.fraction_bits, below);
    const auto significand = static_cast<std::uint64_t>(below);
    p.unbounded_odd = f.fraction_bits > 0 ? (significand & 1) != 0 : ((l - lowest + 1) & 1) != 0;
    p.last_below = l == lowest - 1 && significand == 2 * hidden - 1;
  }
  return p;
}

inline Rounded overflowed(const FloatFormat& f, const Rounding& r, bool sign) {
  const Flags flags = flag::overflow | flag::inexact;
  const bool stays = f.has_zero &&  // E8M0: NaN above the range in every mode
                     (r.mode == RoundingMode::toward_zero || r.mode == RoundingMode::to_odd ||
                      r.mode == (sign ? RoundingMode::toward_positive : RoundingMode::toward_negative));
  if (r.overflow == Overflow::saturate || stays || (!has_infinity(f) && !has_nan(f)))
    return {signed_code(f, max_code(f), sign), flags};
  return {has_infinity(f) ? signed_code(f, max_code(f) + 1, sign) : nan_code(f, r.nan), flags};
}

/// The rounded result of a number in its place.
inline Rounded settle(const FloatFormat& f, const Rounding& r, const BracketedNumber& p, std::uint64_t random) {
  if (p.sign && !f.is_signed) return {nan_code(f, r.nan), flag::invalid};
  if (p.tiny && !f.has_zero) return {0, flag::underflow | flag::inexact};
  const std::uint64_t code = p.below + goes_away(r, p.sign, p.bracket, (p.below & 1) != 0, random);
  if (code > max_code(f)) return oracle::overflowed(f, r, p.sign);
  const bool reaches_normal = p.last_below && goes_away(r, p.sign, p.unbounded, p.unbounded_odd, random);
  const bool tiny = p.tiny && !(r.tininess == halfulp::Tininess::after && reaches_normal);
  if (tiny && r.flush_outputs) return {zero_code(f, p.sign), flag::underflow | flag::inexact};
  const Flags flags = p.bracket.exact ? 0 : flag::inexact | (tiny ? flag::underflow : 0);
  return {code == 0 ? zero_code(f, p.sign) : signed_code(f, code, p.sign), flags};
}

}  // namespace oracle
