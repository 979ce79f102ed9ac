// Means of repeated runs and how far they can be trusted.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace halfulp {

/// Mean of independent runs with its two-sided 95 % confidence interval by Student's t.
struct MeanInterval {
  double mean = 0, low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

/// The 97.5 % quantile of Student's t, by the expansion about the normal quantile (Abramowitz & Stegun 26.7.5):
/// within 0.001 for 9 or more degrees of freedom.
inline double student_975(double degrees) {
  constexpr double z = 1.959963984540054, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

/// Precondition: at least 10 values. Sums run from the first to the last.
inline MeanInterval mean_interval(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  const double mean = sum / n;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const double half = student_975(n - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

}  // namespace halfulp
