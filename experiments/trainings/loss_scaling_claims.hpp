// What loss_scaling claims besides the ranges of scales.
#pragma once

#include <halfulp/experiments/trainings/loss_scaling_runs.hpp>

namespace halfulp::trainings {

/// The scaler by itself, without any training: defaults, how far it is down to 1, to the subnormals and to zero, and what zero does.
void claim_scaler(Report& report);

/// Trainings of one network and policy.
void claim_loss_scaling(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, std::uint64_t test_examples, Report& report);

/// The same of a network that could not be trained.
void skip_loss_scaling(const std::string& network, const std::string& policy, const std::string& why, Report& report);

}  // namespace halfulp::trainings
