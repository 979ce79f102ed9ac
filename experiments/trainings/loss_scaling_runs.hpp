// The trainings of loss_scaling: one network and policy under every way to scale the loss.
#pragma once

#include <halfulp/experiments/trainings/loss_scaling_gradients.hpp>
#include <halfulp/experiments/trainings/runs.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace halfulp::trainings {

enum class Scaling : std::uint8_t {
  reference,  ///< the policy `fp32`
  fixed,      ///< a scale that never moves
  end,        ///< the same, at an end of the range that recovers every gradient, for as long as gradients were looked at
  dynamic,    ///< a GradScaler
  too_fast,   ///< a GradScaler and a learning rate that breaks the network
  poisoned    ///< a GradScaler and a NaN in a gradient in each of the first steps
};

/// One training.
struct ScaledRun {
  Scaling scaling = Scaling::reference;
  std::string base = {};       ///< the policy whose loss scaling was replaced
  int k = 0;                   ///< the first scale is 2^k
  bool skip = true;            ///< of fixed scales
  std::int64_t interval = 0;   ///< of growth, in updates
  std::string end = {};        ///< which end
  std::uint64_t poisoned = 0;  ///< steps with a NaN
  training::Policy policy = {};
  Job job = {};
  training::TrainingRecord record = {};
};

/// Updates until a scale of 2^16 has become zero by halving: 16 to 1, 149 to the smallest fp32 number, and one.
inline constexpr std::uint64_t updates_to_zero = 16 + 149 + 1;

/// All trainings of a network under a policy; `reference` with a network's first. Jobs point to the policies: the deque must stay where it
/// is.
void plan(const Config& config, const training::Policy& policy, const NetworkGradients& gradients, const Data& data,
          const training::Examples& examples, std::deque<ScaledRun>& runs);

/// The scale after each of a training's updates.
std::vector<double> course_of(const ScaledRun& run);

/// The scale that the second half of a training had for most updates, the smaller of equals; 0 for a training without updates.
double settled_scale(const ScaledRun& run);

/// Shares of all gradients, of weights and activations, in counted steps: zero by rounding, overflowed.
struct GradientShares {
  double lost = 0, overflowed = 0;
};
GradientShares shares_of(const training::TrainingRecord& record);

/// When a scale came down to 1, to the subnormals, to zero: the number of updates that lowered it.
struct Descent {
  std::optional<std::uint64_t> to_one = {}, to_subnormal = {}, to_zero = {};
  std::optional<std::uint64_t> zero_at = {};    ///< the step that made it zero
  std::optional<std::uint64_t> unnoticed = {};  ///< the step that was taken although unscaling made NaN
  std::string cause;                            ///< of the collapse, in words
};
Descent descent_of(const training::TrainingRecord& record);

}  // namespace halfulp::trainings
