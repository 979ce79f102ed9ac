// What loss scaling has to work with: the gradients of a training in FP32, and what each format makes of them at each scale.
#pragma once

#include <halfulp/experiments/trainings/gradient_range.hpp>
#include <halfulp/experiments/trainings/setup.hpp>

#include <string>
#include <vector>

namespace halfulp::trainings {

/// Gradients of one tensor in the counted steps of a training.
struct TensorGradients {
  std::string tensor, kind;  ///< "fc1.weight", "weight"; "fc1", "activation"
  GradientSample sample = {};
};

/// Those of a network. `all`: of all tensors together.
struct NetworkGradients {
  std::string network;
  std::vector<TensorGradients> tensors = {};
  GradientSample weights = {}, activations = {}, all = {};
  std::vector<std::uint64_t> steps = {};
};

/// Trains in FP32 with loss scale 1 for `gradient_steps` and keeps the gradients of the first step and of the last one of each of four
/// intervals. Saves them too if the configuration has `save_gradients`.
NetworkGradients collect_gradients(const Config& config, const std::string& network, const Data& data);

/// The settings of that training.
training::TrainerSettings gradient_settings(const Config& config, const std::string& network, const Data& data);

/// The tables `gradients`, `ranges` and `recovery`, and what follows from the formats. `networks` has those that could be trained.
void report_gradients(const Config& config, const std::vector<NetworkGradients>& networks, const Data& data, Report& report);

}  // namespace halfulp::trainings
