// Exact references for sums and dot products: integers in units of 2^-scale, rounded once at the end.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace halfulp {

/// An exact value: `units` * 2^-scale, the scale kept by whoever uses it.
using Units = boost::multiprecision::cpp_int;

/// x * 2^scale. Precondition: x is finite and a multiple of 2^-scale.
Units in_units(double x, int scale);

/// a / b * 2^exponent rounded once to a format, in a mode that is not stochastic. Precondition: b > 0.
std::uint64_t rounded(const FloatFormat& f, const Rounding& rounding, const Units& a, const Units& b, int exponent = 0);

/// a / b rounded once to the nearest double, ties to even. Precondition: b > 0.
double ratio(const Units& a, const Units& b);

/// The scale at which every finite value of a format is whole; twice it serves products.
constexpr int scale_of(const FloatFormat& f) { return f.fraction_bits - f.emin(); }

// Norms of tensors whose values may be anything that fp64 holds.

/// A sum of squares over 4^exponent, so that squares of what fp64 can hold neither overflow nor vanish. The scale is a
/// power of two, that of the largest magnitude so far: where plain squares would do, the sum is the same.
class SumOfSquares {
 public:
  void add(double x) {
    if (std::fabs(x) >= limit_) rescale(std::ilogb(x));
    sum_ += x * factor_ * (x * factor_);
  }
  /// The same so many times at once.
  void add(double x, double times) {
    if (std::fabs(x) >= limit_) rescale(std::ilogb(x));
    sum_ += times * (x * factor_ * (x * factor_));
  }
  /// The sum of squares of floats, which neither overflow nor vanish in fp64.
  void add_sum(double squares) {
    if (squares == 0) return;
    if (const double root = std::sqrt(squares); root >= limit_) rescale(std::ilogb(root));
    sum_ += squares * factor_ * factor_;
  }
  /// What another one has added up.
  void add(const SumOfSquares& other) {
    if (other.is_zero()) return;
    if (other.exponent_ > exponent_) rescale(other.exponent_);
    sum_ += std::ldexp(other.sum_, 2 * (other.exponent_ - exponent_));
  }
  bool is_zero() const { return sum_ == 0; }
  /// sqrt(this / other), which is not zero. What is too small for fp64 is its least number, since 0 would say that
  /// nothing was lost.
  double root_of_ratio(const SumOfSquares& other) const {
    if (is_zero()) return 0;
    return std::max(std::ldexp(std::sqrt(sum_ / other.sum_), exponent_ - other.exponent_),
                    std::numeric_limits<double>::denorm_min());
  }

 private:
  void rescale(int exponent) {
    sum_ = std::ldexp(sum_, 2 * (exponent_ - exponent));
    exponent_ = exponent, factor_ = std::ldexp(1.0, -exponent), limit_ = std::ldexp(1.0, exponent + 1);
  }

  int exponent_ =
      -1000;  // the least, so that the factor is finite: 2^-1074 is 2^-74 then, and its square a normal number
  double factor_ = 0x1p1000, limit_ = 0x1p-999, sum_ = 0;
};

// Means of repeated runs and how far they can be trusted.

/// Mean of independent runs with its two-sided 95 % confidence interval by Student's t.
struct MeanInterval {
  double mean = 0, low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

/// The 97.5 % quantile of Student's t by the expansion about the normal quantile (Abramowitz & Stegun 26.7.5), within
/// 0.001 for 9 or more degrees of freedom. A quantile from Boost.Math would change digits that reports print.
inline double student_975(double degrees) {
  constexpr double z = 1.959963984540054, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

/// Mean and variance of a sample.
struct SampleMoments {
  double mean = 0, variance = 0;
};

/// Precondition: at least 2 values. Sums run from the first to the last.
inline SampleMoments sample_moments(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  const double mean = sum / n;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return {mean, squares / (n - 1)};
}

/// Precondition: at least 10 values.
inline MeanInterval mean_interval(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const SampleMoments sample = sample_moments(values);
  const double half = student_975(n - 1) * std::sqrt(sample.variance / n);
  return {sample.mean, sample.mean - half, sample.mean + half};
}

}  // namespace halfulp
