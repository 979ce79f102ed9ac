// A training's settings and record as JSON, for checkpoints: what is read back is the same to the last bit.
#pragma once

#include <halfulp/experiments/training/trainer.hpp>

namespace halfulp::training {

Json to_json(const TrainerSettings& settings);
Json to_json(const TrainingRecord& record);
/// Throws Json's exceptions for what to_json has not made.
TrainingRecord record_from_json(const Json& json);

}  // namespace halfulp::training
