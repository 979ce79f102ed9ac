// Functions that networks apply to every element, from IEEE operations alone: the same bits on every machine, unlike a libm's.
// None has a branch, so that compilers make vectors of loops over them. For float they are computed in double, with fewer terms, and rounded once.
#pragma once

#include <halfulp/experiments/data/elementary.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

namespace halfulp {
namespace smooth {

/// How far series go for results in T: errors of about 2^-52 and 2^-28.
template <class T>
inline constexpr int exp_terms = std::is_same_v<T, float> ? 8 : 13;
template <class T>
inline constexpr std::size_t erfc_terms = std::is_same_v<T, float> ? 14 : 25;

/// e^r - 1 for |r| <= ln(2) / 2, by Taylor's series.
template <int terms>
inline double expm1_reduced(double r) {
  constexpr auto inverse = [] {
    std::array<double, terms + 1> factorials{};
    double f = 1;
    for (int k = 1; k <= terms; ++k) factorials[static_cast<std::size_t>(k)] = 1 / (f *= k);
    return factorials;
  }();
  double sum = inverse[terms];
  for (std::size_t k = terms - 1; k >= 1; --k) sum = sum * r + inverse[k];
  return sum * r;
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

/// (1 + 2 y) e^(y^2) erfc(y) for y >= 0 as a Chebyshev series in t = (y - 3.75) / (y + 3.75), after Shepherd and Laframboise
/// (Math. Comp. 36, 1981); coefficients by interpolation at 80 nodes with 60 digits.
template <std::size_t terms>
inline double scaled_erfc(double y) {
  constexpr std::array<double, 25> c{
      0x1.2d75d0246cee8p+0, -0x1.2cd0564f8c1b7p-8, -0x1.59159e8868995p-4, 0x1.e50c3e7c7dccep-5, -0x1.b4c68f4569326p-6,
      0x1.295e991a7d82dp-7, -0x1.3c4c54f8d419dp-9, 0x1.014ed1572209ap-11, -0x1.221e6f70130b5p-14, 0x1.15c3f597f0492p-18,
      0x1.9f8f03ca86fc1p-21, -0x1.d601c320c8f9cp-23, 0x1.71e1efca86cf9p-27, 0x1.36bf2885524c9p-28, -0x1.aa4d7b1cdf20ap-31,
      -0x1.15df59ca6082bp-34, 0x1.f8af0a9aa6d31p-36, 0x1.b61b723941781p-43, -0x1.0fc16c00b50f2p-40, 0x1.24f6a772cbc36p-45,
      0x1.2d8b49ab5f72bp-45, -0x1.0cb63a80de2c5p-49, -0x1.6884628ace07ap-50, 0x1.561b105822235p-54, 0x1.d3744857e262bp-55};
  const double t = (y - 3.75) / (y + 3.75);
  double b1 = 0, b2 = 0;
  for (std::size_t k = terms - 1; k >= 1; --k) {
    const double b = 2 * t * b1 - b2 + c[k];
    b2 = b1;
    b1 = b;
  }
  return t * b1 - b2 + c[0];
}

/// P(X <= x) of a standard normal X, its small values too to a relative error of about |x|^2 2^-53.
template <class T>
inline double normal_cdf(double x) {
  const double y = std::fabs(x) * 0.70710678118654752440;
  const double tail = 0.5 * exp<exp_terms<T>>(-0.5 * x * x) * scaled_erfc<erfc_terms<T>>(clamped(y, 0, 1e8)) / (1 + 2 * y);
  return x > 0 ? 1 - tail : tail;
}

}  // namespace smooth

/// e^x: 0 below about -745 and Inf above 709.78 (for float: 0 and Inf where float has nothing nearer). Within 2 units in the last place of double,
/// and for float of the correctly rounded result or its neighbour.
template <class T>
inline T smooth_exp(T x) {
  return static_cast<T>(smooth::exp<smooth::exp_terms<T>>(x));
}
/// e^x of every element; to and from may be the same memory.
template <class T>
inline void smooth_exponentials(std::span<const T> from, std::span<T> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = smooth_exp<T>(from[i]);
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
  if (wide < 0x1p-1022) return static_cast<T>(deterministic_log(wide * 0x1p52) - 52 * 0.693147180559945309417);
  return static_cast<T>(deterministic_log(wide));
}

/// ln(1 + x) for -1 <= x <= 1, small ones to full relative accuracy: what 1 + x lost is put back. -Inf at -1.
template <class T>
inline T smooth_log1p(T x) {
  const double wide = x, sum = 1 + wide;
  if (!(sum > 0)) return smooth_log(static_cast<T>(sum));
  return static_cast<T>(deterministic_log(sum) + (wide - (sum - 1)) / sum);
}

}  // namespace halfulp
