// Gradients of a training, and the loss scales under which a format keeps all of them.
#pragma once

#include <halfulp/formats/format.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace halfulp::trainings {

/// What became of gradients other than zero when they were scaled and rounded to nearest even.
struct Recovery {
  std::uint64_t lost = 0, subnormal = 0, overflowed = 0;  ///< zero; subnormal; Inf, NaN or clipped
  bool operator==(const Recovery&) const = default;
};

/// The scales 2^k, from <= k <= to, under which no gradient becomes zero and none overflows.
struct ScaleRange {
  int from = 0, to = 0;
  bool empty() const { return from > to; }
  bool operator==(const ScaleRange&) const = default;
};

/// The gradients of one tensor, or of several. Scaled ones are doubles, so that scaling itself loses nothing. Formats have a zero and at
/// most 8 exponent bits.
class GradientSample {
 public:
  void add(std::span<const float> gradients);
  void add(const GradientSample& other);
  /// To be called once, after the last add() and before anything below.
  void sort();

  std::uint64_t elements() const { return zeros_ + not_finite_ + magnitudes_.size(); }
  std::uint64_t zeros() const { return zeros_; }
  std::uint64_t not_finite() const { return not_finite_; }
  std::uint64_t non_zero() const { return magnitudes_.size(); }  ///< and finite
  /// Magnitudes other than zero in [from, to).
  std::uint64_t between(double from, double to) const;
  /// floor(log2 |g|) of the smallest and the largest gradient other than zero. Precondition: non_zero() > 0.
  int smallest_exponent() const;
  int largest_exponent() const;

  /// Under a scale of 2^k, |k| <= 300: by rounding every gradient.
  Recovery by_rounding(const FloatFormat& format, int k) const;
  /// The same by comparing magnitudes with the format's limits (NearestEvenLimits): no rounding is done.
  Recovery by_limits(const FloatFormat& format, int k) const;
  /// By rounding every gradient under scale after scale. Precondition of both: non_zero() > 0.
  ScaleRange range_by_rounding(const FloatFormat& format) const;
  /// From exponent and significand of the smallest and the largest gradient alone.
  ScaleRange range_by_limits(const FloatFormat& format) const;

 private:
  std::uint64_t zeros_ = 0, not_finite_ = 0;
  std::vector<float> magnitudes_;
};

}  // namespace halfulp::trainings
