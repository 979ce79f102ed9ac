// Gradients of a training's steps into a folder that `underflow` reads.
#pragma once

#include <halfulp/experiments/training/trainer.hpp>

#include <memory>

namespace halfulp::trainings {

/// From now on the trainer's counted steps are saved: gradients of weights as "fc1.weight.gradient", of activations as
/// "fc1.activation-gradient" (a second of the same layer: "fc1.activation-gradient-2"). Replaces the trainer's after_backward and the
/// microscope's spy. Throws std::invalid_argument for folders that SavedGradients refuses.
void keep_gradients(training::Trainer& trainer, const std::string& folder, Json about);

}  // namespace halfulp::trainings
