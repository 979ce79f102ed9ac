// Why a training ended as it did, from what the microscope saw.
#pragma once

#include <halfulp/experiments/training/trainer.hpp>

#include <string>
#include <vector>

namespace halfulp::trainings {

/// Shares over all tensors and intervals of a training.
struct Evidence {
  double swamped = 0;              ///< of updates other than zero
  double gradients_underflowed = 0;  ///< of gradients, of weights and activations
  double operands_underflowed = 0;  ///< of the operands of products
  double gradients_zero = 0;       ///< of the weights' gradients
  double second_underflowed = 0;   ///< of Adam's second moments
  std::uint64_t zero_denominators = 0;
  double growth = 0;               ///< largest norm of a parameter over its first one, at the end
};
Evidence evidence_of(const training::TrainingRecord& record);

struct Diagnosis {
  std::string why;     ///< in a few words; empty if nothing is to be told
  std::string repair;  ///< what is known to help
};
/// `worse`: whether it ended below the reference.
Diagnosis diagnose(const training::TrainingRecord& record, bool worse);

}  // namespace halfulp::trainings
