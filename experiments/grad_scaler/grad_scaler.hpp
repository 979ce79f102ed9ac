// How a GradScaler is used, and how it is used wrongly: a regression whose gradients are known.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/training/loss_scaler.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace halfulp::grad_scaler {

inline constexpr std::size_t examples = 16;  ///< and as many weights
using Weights = std::array<float, examples>;

/// Least squares. Example i has the features (-1)^popcount(i & j), rows of a Hadamard matrix, and the target that the
/// solution t gives. So the mean of half the squared errors is |w - t|^2 / 2, and its gradient is w - t. Weights begin
/// at zero.
///
/// Under autocast to FP16 weights are rounded before the product, and so are predictions, the gradients of predictions
/// and the gradient of the weights; sums are in FP32, and so are the weights and what gradients are accumulated in.
class Regression {
 public:
  explicit Regression(const Weights& solution) : solution_(solution) {}

  /// Mean over all examples.
  double loss(bool half) const;
  /// Adds factor * the gradient of the loss of examples `from` to `to`, divided by the number of all.
  void backward(float factor, bool half, std::size_t from = 0, std::size_t to = examples);
  /// weights -= rate * gradient, in FP32.
  void take_step(float rate);
  void zero_gradient() { gradient = {}; }
  /// w - t, in double.
  std::array<double, examples> exact_gradient() const;
  /// For the scaler.
  std::array<std::span<float>, 1> gradients() { return {std::span<float>(gradient)}; }

  Weights weights{}, gradient{};

 private:
  std::array<float, examples> errors(bool half) const;
  Weights solution_;
};

/// All of one size, and of signs for which every example has the same error.
Weights even_solution(float size);

double norm(std::span<const double> values);
double norm(std::span<const float> values);

/// Its table, and the claims on it.
void several_optimizers(Report& report);
void clipping(const Config& config, Report& report);
void accumulation(const Config& config, Report& report);
/// Two tables.
void resuming(const Config& config, Report& report);

}  // namespace halfulp::grad_scaler
