// Logarithm and powers from IEEE operations alone: the same bits on every machine, unlike a libm's.
#pragma once

#include <halfulp/formats/format.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

namespace halfulp {

/// ln x for a normal x > 0, within 2 units in the last place, or 2^-52 absolute where that is more (tested against
/// 50 decimal digits). x = m 2^e with m in [1/sqrt 2, sqrt 2), ln m = 2 artanh((m - 1) / (m + 1)) by its series.
constexpr double deterministic_log(double x) {
  constexpr double ln2 = 0.693147180559945309417, sqrt2 = 1.41421356237309504880;
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
  return 2 * (s + s * sum) + e * ln2;
}

/// log2 x for a normal x > 0, to about 2^-51 relative to the larger of its parts.
constexpr double deterministic_log2(double x) { return deterministic_log(x) * 1.44269504088896340736; }

/// 2^x within 2 units in the last place, for -1022 <= x < 1023: an exact power of two times the Taylor series of
/// e^(f ln 2), |f| <= 1/2.
inline double deterministic_exp2(double x) {
  const double whole = std::floor(x + 0.5);
  const double y = (x - whole) * 0.693147180559945309417;
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = 1 + sum * y / k;
  return FloatFormat::power_of_two(static_cast<int>(whole)) * sum;
}

/// x^n for |x| <= 1 by repeated squaring of pairs of doubles (Dekker 1971): within little more than half a unit in the last place, down
/// to 2^-960 or so; below that within 2^-1000.
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

}  // namespace halfulp
