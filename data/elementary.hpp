// Elementary functions that give the same bits on every machine, unlike those of a C library: experiments, data and
// training take theirs from here.
//
// Why the bits are the same: each function is a fixed sequence of IEEE 754 operations in double (+ - * /, fma, floor,
// comparisons), compiled without contraction.
// How accurate they are: each reduces its argument to an interval where a series or a polynomial of known degree has a
// truncation error below 2^-53 (2^-34 where the result becomes a float), then evaluates it with a few roundings of at
// most half a unit in the last place each. The bound that follows stands at each function; tests measure it against 50
// decimal digits.
#pragma once

#include <halfulp/formats/format.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace halfulp {

inline constexpr double ln_2 = 0.693147180559945309417, ln_10 = 2.30258509299404568402;
/// pi / 2 in two doubles: their sum is right to about 2^-107.
inline constexpr double half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;

// Logarithm and powers of doubles.

/// ln x for a normal x > 0, within 2 units in the last place, or 2^-52 absolute where that is more (tested against
/// 50 decimal digits). x = m 2^e with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh((m - 1) / (m + 1)) by its series.
constexpr double deterministic_log(double x) {
  constexpr double sqrt2 = 1.41421356237309504880;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int e = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023} << 52);
  if (m >= sqrt2) {
    m /= 2;
    ++e;
  }
  const double s = (m - 1) / (m + 1), t = s * s;
  double sum = 0;
  for (int k = 25; k >= 3; k -= 2) sum = (sum + 1.0 / k) * t;
  return 2 * (s + s * sum) + e * ln_2;
}

/// log2 x for a normal x > 0, to about 2^-51 relative to the larger of its parts.
constexpr double deterministic_log2(double x) { return deterministic_log(x) * 1.44269504088896340736; }

/// 2^x within 2 units in the last place, for -1022 <= x < 1023: an exact power of two times the Taylor series of
/// e^(f ln 2), |f| <= 1/2.
inline double deterministic_exp2(double x) {
  const double whole = std::floor(x + 0.5);
  const double y = (x - whole) * ln_2;
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = 1 + sum * y / k;
  return FloatFormat::power_of_two(static_cast<int>(whole)) * sum;
}

/// x^n for |x| <= 1 by repeated squaring of pairs of doubles (Dekker 1971): within little more than half a unit in the
/// last place, down to 2^-960 or so; below that within 2^-1000.
constexpr double deterministic_power(double x, std::uint64_t n) {
  struct Pair {
    double high, low;
  };
  const auto split = [](double a) {
    const double c = 0x1.0000002p27 * a, high = c - (c - a);
    return Pair{high, a - high};
  };
  const auto times = [&](Pair a, Pair b) {
    const double product = a.high * b.high;
    const Pair p = split(a.high), q = split(b.high);
    const double error = ((p.high * q.high - product) + p.high * q.low + p.low * q.high) + p.low * q.low;
    const double low = error + (a.high * b.low + a.low * b.high), sum = product + low;
    return Pair{sum, low - (sum - product)};
  };
  Pair result{1, 0};
  for (Pair square{x, 0}; n != 0; n >>= 1) {
    if (n & 1) result = times(result, square);
    square = times(square, square);
  }
  return result.high;
}

// Functions that networks apply to every element. They have no branches, so that compilers make vectors of loops over
// them. For float they compute in double, with fewer terms, and round once.

namespace smooth {

/// How far the series of e^x goes for results in T: errors of about 2^-53 and 2^-34.
template <class T>
inline constexpr int exp_terms = std::is_same_v<T, float> ? 8 : 13;

/// c[0] + c[1] x + c[2] x^2 + ..., neighbours first (Estrin's scheme): its steps depend on each other less than
/// Horner's.
template <std::size_t terms>
inline double polynomial(std::array<double, terms> c, double x) {
  if constexpr (terms == 1) {
    return c[0];
  } else {
    std::array<double, (terms + 1) / 2> pairs;
    for (std::size_t i = 0; i < terms / 2; ++i) pairs[i] = c[2 * i] + c[2 * i + 1] * x;
    if constexpr (terms % 2 != 0) pairs[terms / 2] = c[terms - 1];
    return polynomial(pairs, x * x);
  }
}

/// e^r - 1 for |r| <= ln(2) / 2, by Taylor's series.
template <int terms>
inline double expm1_reduced(double r) {
  constexpr auto inverse = [] {  // 1 / 1!, 1 / 2!, ...
    std::array<double, terms> factorials{};
    double f = 1;
    for (int k = 1; k <= terms; ++k) factorials[static_cast<std::size_t>(k - 1)] = 1 / (f *= k);
    return factorials;
  }();
  return polynomial(inverse, r) * r;
}

/// x - k ln 2 and k, the integer nearest x / ln 2, held as 0x1.8p52 + k: its last bits are k's. |x| <= 1100.
struct Reduced {
  double r, k, shifted;
};
inline Reduced reduce(double x) {
  // ln 2 in two parts, the high one with 32 bits, so that k times it is exact.
  constexpr double high = 0x1.62e42feep-1, low = 0x1.a39ef35793c76p-33, inverse = 0x1.71547652b82fep+0;
  const double shifted = x * inverse + 0x1.8p52, k = shifted - 0x1.8p52;
  return {x - k * high - k * low, k, shifted};
}

/// 2^k for |k| <= 1022, k held as 0x1.8p52 + k.
inline double power_of(double shifted) {
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) << 52) + (std::uint64_t{1023} << 52));
}

inline double clamped(double x, double low, double high) {
  const double above = x < low ? low : x;
  return above > high ? high : above;
}

template <int terms>
inline double exp(double x) {
  const Reduced a = reduce(clamped(x, -750, 711));
  // Twice half the power, since 2^k itself may be no normal number.
  const double half = a.k * 0.5 + 0x1.8p52;
  return (expm1_reduced<terms>(a.r) + 1) * power_of(half) * power_of(a.k - (half - 0x1.8p52) + 0x1.8p52);
}

/// e^x - 1 for x <= 700.
template <int terms>
inline double expm1(double x) {
  const Reduced a = reduce(clamped(x, -60, 700));
  const double power = power_of(a.shifted);
  return expm1_reduced<terms>(a.r) * power + (power - 1);
}

template <int terms>
inline double tanh(double x) {
  const double e = expm1<terms>(clamped(2 * std::fabs(x), 0, 60));
  return std::copysign(e / (e + 2), x);
}

template <int terms>
inline double sigmoid(double x) {
  // By e^-|x| on both sides: nothing overflows, and small results keep their digits.
  const double e = exp<terms>(-std::fabs(x)), numerator = x < 0 ? e : 1.0;
  return numerator / (1 + e);
}

/// (1 + 2 y) e^(y^2) erfc(y) for y >= 0 is a smooth function of t = (y - 3.75) / (y + 3.75) (Shepherd and Laframboise,
/// Math. Comp. 36, 1981): its Chebyshev series by interpolation at 80 nodes with 60 digits, cut off at a relative error
/// of 7e-10 for float and 4e-18 for double, as powers of t.
inline constexpr std::array<double, 14> short_erfc{
    0x1.3ccda0b2609cbp+0,  -0x1.1f3676a4a0131p-3,  0x1.d5f5423a4c262p-9,  0x1.5101735820313p-4,  -0x1.bdaa8cdf57d02p-4,
    0x1.7a13b1904d789p-4,  -0x1.e0c049f57cecfp-5,  0x1.d0b7adf700b97p-6,  -0x1.40256e773fd38p-7, 0x1.cb0e32fdabd85p-10,
    0x1.5a34a6d48db53p-12, -0x1.2a1fb5cb79347p-12, 0x1.71e1efca86cf9p-16, 0x1.36bf2885524c9p-16};
inline constexpr std::array<double, 25> long_erfc{
    0x1.3ccda0b5d5dc2p+0,  -0x1.1f367683f89a5p-3,  0x1.d5f294815a405p-9,   0x1.510169d09665bp-4,
    -0x1.bda9309a2949ap-4, 0x1.7a14188a9ce2ap-4,   -0x1.e0d0fa6ddfe85p-5,  0x1.d0b0037d167adp-6,
    -0x1.3f603c398c6c5p-7, 0x1.cc3a0e7d2150cp-10,  0x1.33fb2968decd9p-12,  -0x1.303fa4966bc38p-12,
    0x1.b1439865f8d9ep-15, 0x1.778b933adcce7p-16,  -0x1.800077b775cf3p-17, -0x1.055686d42aa63p-20,
    0x1.d6339f66a50f8p-20, -0x1.eb803840c0574p-25, -0x1.15be4201dc721p-22, 0x1.8fa9fe49c359bp-26,
    0x1.4c37f59c36e71p-25, -0x1.014cd7201b5adp-28, -0x1.638dcc665be8dp-28, 0x1.561b105822235p-32,
    0x1.d3744857e262bp-32};
template <class T>
inline double scaled_erfc(double y) {
  const double t = (y - 3.75) / (y + 3.75);
  if constexpr (std::is_same_v<T, float>) return polynomial(short_erfc, t);
  else return polynomial(long_erfc, t);
}

/// P(X <= x) of a standard normal X, its small values too to a relative error of about |x|^2 2^-53.
template <class T>
inline double normal_cdf(double x) {
  const double y = std::fabs(x) * 0.70710678118654752440;
  const double tail = 0.5 * exp<exp_terms<T>>(-0.5 * x * x) * scaled_erfc<T>(clamped(y, 0, 1e8)) / (1 + 2 * y);
  return x > 0 ? 1 - tail : tail;
}

}  // namespace smooth

/// e^x: 0 below about -745 and Inf above 709.78 (for float: 0 and Inf where float has nothing nearer). Within 2 units
/// in the last place of double, and for float of the correctly rounded result or its neighbour.
template <class T>
inline T smooth_exp(T x) {
  return static_cast<T>(smooth::exp<smooth::exp_terms<T>>(x));
}

/// Within 2^-51 relative in double.
template <class T>
inline T smooth_tanh(T x) {
  return static_cast<T>(smooth::tanh<smooth::exp_terms<T>>(x));
}

/// 1 / (1 + e^-x), relative as smooth_exp.
template <class T>
inline T smooth_sigmoid(T x) {
  return static_cast<T>(smooth::sigmoid<smooth::exp_terms<T>>(x));
}

/// The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2, and its density.
template <class T>
inline T smooth_normal_cdf(T x) {
  return static_cast<T>(smooth::normal_cdf<T>(x));
}
template <class T>
inline T smooth_normal_density(T x) {
  const double wide = x;
  return static_cast<T>(smooth::exp<smooth::exp_terms<T>>(-0.5 * wide * wide) * 0.39894228040143267794);
}

/// ln x; -Inf at 0, NaN below it. (This one has branches.)
template <class T>
inline T smooth_log(T x) {
  if (!(x > 0)) return x == 0 ? -HUGE_VAL : std::numeric_limits<T>::quiet_NaN();
  if (x == std::numeric_limits<T>::infinity()) return x;
  const double wide = x;
  if (wide < 0x1p-1022) return static_cast<T>(deterministic_log(wide * 0x1p52) - 52 * ln_2);
  return static_cast<T>(deterministic_log(wide));
}

/// ln(1 + x) for -1 <= x <= 1, small ones to full relative accuracy: what 1 + x lost is put back. -Inf at -1.
template <class T>
inline T smooth_log1p(T x) {
  const double wide = x, sum = 1 + wide;
  if (!(sum > 0)) return smooth_log(static_cast<T>(sum));
  return static_cast<T>(deterministic_log(sum) + (wide - (sum - 1)) / sum);
}

// Angles in two doubles, their cosine and their sine.

/// high + low, the low part below half a unit in the last place of the high one.
struct TwoDoubles {
  double high = 0, low = 0;
};

/// n * x, to about 2^-100 relative.
inline TwoDoubles times(double n, const TwoDoubles& x) {
  const double p = n * x.high;
  return {p, std::fma(n, x.high, -p) + n * x.low};
}

/// cos(x), within 3e-16 absolute for |x| <= 2^20 (tested against 50 decimal digits): x - k pi/2 in [-pi/4, pi/4]
/// (Cody & Waite's reduction), then a Taylor series.
inline double cosine(const TwoDoubles& x) {
  constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
  // 1 / (2k (2k - 1)) and 1 / (2k (2k + 1)): the ratios of neighbouring coefficients.
  constexpr auto ratios = [] {
    std::array<std::array<double, 2>, 10> r{};
    for (int k = 1; k < 10; ++k)
      r[static_cast<std::size_t>(k)] = {1.0 / (2 * k * (2 * k - 1)), 1.0 / (2 * k * (2 * k + 1))};
    return r;
  }();
  const double k = std::floor(x.high * two_over_pi + 0.5);
  const double r = std::fma(-k, half_pi_low, std::fma(-k, half_pi_high, x.high)) + x.low;
  const int quadrant = static_cast<int>(static_cast<long long>(k) & 3);
  const bool is_sine = (quadrant & 1) != 0;
  const double square = r * r;
  double series = 1;
  for (std::size_t i = 9; i >= 1; --i) series = 1 - square * ratios[i][is_sine] * series;
  const double value = is_sine ? r * series : series;
  return quadrant == 1 || quadrant == 2 ? -value : value;
}

/// sin(x) = cos(x - pi/2), as good.
inline double sine(const TwoDoubles& x) {
  // x - pi/2 in two parts: what the difference lost is put back (Knuth's two-sum).
  const double high = x.high - half_pi_high, kept = x.high - high;
  const double lost = (x.high - (high + kept)) + (kept - half_pi_high);
  return cosine({high, lost + (x.low - half_pi_low)});
}

}  // namespace halfulp
