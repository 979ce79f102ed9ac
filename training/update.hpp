// The operations of one step on a piece of a tensor, in PyTorch's order.
#pragma once

#include <halfulp/training/optimizer.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace halfulp::training {

/// The scalars of one step of one tensor: computed in double as in Python, then rounded to float as operations on
/// tensors do.
struct StepNumbers {
  bool adam = false, decoupled = false;  ///< decoupled: weight decay shrinks the weight
  float weight_decay = 0;                ///< added to the gradient times the weight
  float shrink = 1, shrunk = 0;          ///< decoupled: 1 - lr weight_decay, and -lr weight_decay
  float step = 0;                        ///< -lr, of adam divided by the first bias correction
  float momentum = 0;                    ///< sgd
  bool first_momentum = false, nesterov = false;
  float weight1 = 0, beta2 = 0, weight2 = 0, root = 1,
        eps = 0;  ///< adam: 1 - beta1, beta2, 1 - beta2, the root of the second correction
};
/// `steps` counts the steps of this tensor, including this one.
StepNumbers numbers_of(const OptimizerSettings& settings, const UpdatePrecision& precision, std::uint64_t steps);

namespace update_steps {
/// The operations whose results are rounded, in the order of the steps.
enum Step : std::size_t {
  decayed_gradient,
  scaled_first,
  first,
  lookahead,
  scaled_second,
  second,
  root,
  corrected,
  denominator,
  update,
  decayed_update,
  shrunk,
  step_count
};
}  // namespace update_steps

/// Rounds results of operations to the stage, if there is one. Stochastic rounding takes one stream per operation.
class OperationRounding {
 public:
  OperationRounding(const std::optional<Stage>& stage, std::uint64_t seed, std::string_view parameter,
                    std::uint64_t step);
  /// `values` begin at element `begin` of the tensor.
  void operator()(std::size_t operation, std::size_t begin, std::span<float> values) const {
    if (stage_) quantize(stage_->format, stage_->rounding, values, values, {seed_, streams_[operation], begin});
  }

 private:
  const Stage* stage_;
  std::uint64_t seed_;
  std::array<std::uint64_t, update_steps::step_count> streams_{};
};

/// Elements [begin, begin + weights.size()) of a tensor. All spans have one length; `first` and `second` are empty
/// where no state is kept. With `kahan` the weights do not change, and `update` becomes what the caller adds to them.
/// Otherwise the weights change, and `update` and `denominators` are filled for a report unless they are empty.
struct UpdatePiece {
  std::size_t begin;
  std::span<const float> gradient;
  std::span<float> weights, first, second, update, denominators;
};
/// Precondition: pieces of at most `largest_piece`.
inline constexpr std::size_t largest_piece = 1024;
void update_piece(const StepNumbers& numbers, bool kahan, const OperationRounding& rounding, const UpdatePiece& piece);

}  // namespace halfulp::training
