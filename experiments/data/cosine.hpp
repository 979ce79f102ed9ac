// Angles in two doubles and their cosine from IEEE operations alone: the same bits on every machine.
#pragma once

#include <array>
#include <cmath>

namespace halfulp {

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
  constexpr double half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  // 1 / (2k (2k - 1)) and 1 / (2k (2k + 1)): the ratios of neighbouring coefficients.
  constexpr auto ratios = [] {
    std::array<std::array<double, 2>, 10> r{};
    for (int k = 1; k < 10; ++k) r[static_cast<std::size_t>(k)] = {1.0 / (2 * k * (2 * k - 1)), 1.0 / (2 * k * (2 * k + 1))};
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
inline double sine(double x) {
  constexpr double half_pi_high = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  // x - pi/2 in two parts: what the difference lost is put back (Knuth's two-sum).
  const double high = x - half_pi_high, kept = x - high, lost = (x - (high + kept)) + (kept - half_pi_high);
  return cosine({high, lost - half_pi_low});
}

}  // namespace halfulp
