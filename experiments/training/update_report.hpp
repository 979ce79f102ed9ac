// What one step did to one parameter.
#pragma once

#include <cstdint>
#include <span>

namespace halfulp::training {

/// Counts of elements, and norms. The update is what would be added to a weight in exact arithmetic but for fp32's rounding; with
/// Kahan summation, what is added before the compensation.
struct UpdateReport {
  bool taken = false;                  ///< there was a gradient; otherwise all below but the weights' norm is 0
  std::uint64_t elements = 0;
  std::uint64_t with_update = 0;       ///< update other than zero
  std::uint64_t swamped = 0;           ///< of these: nothing of it was kept, neither in the stored weight nor in its master or compensation
  std::uint64_t changed = 0;           ///< the parameter has another value
  std::uint64_t zero_gradients = 0;
  std::uint64_t second_underflowed = 0;  ///< the mean of squares is stored as zero, and the gradient is not zero
  std::uint64_t zero_denominators = 0;   ///< of adam's update
  std::uint64_t non_finite = 0;          ///< parameters that are Inf or NaN after the step
  double weight_norm = 0, gradient_norm = 0, update_norm = 0;  ///< Euclidean, in fp64, by fixed_order_sum
};

/// What is looked at. Spans that are empty are not there.
struct UpdateTrace {
  std::span<const float> parameter_before, parameter, gradient, update, second, denominators;
  /// What updates are added to: parameters or master weights; and their compensation.
  std::span<const float> target_before, target, compensation_before, compensation;
};
UpdateReport report_of(const UpdateTrace& trace);

/// The square root of the sum of squares.
double norm_of(std::span<const float> values);

}  // namespace halfulp::training
