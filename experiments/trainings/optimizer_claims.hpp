// What follows from formats for Adam's numbers, what is published of its states, and whether trainings agree.
#pragma once

#include <halfulp/experiments/trainings/setup.hpp>
#include <halfulp/experiments/trainings/spread.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace halfulp::trainings {

/// One variant's trainings, a seed each. Records outlive this.
struct VariantOutcome {
  Spread spread = {};
  std::uint64_t norm_spikes = 0, loss_spikes = 0, abnormal = 0;
  std::optional<std::uint64_t> failed_at = {};
  std::vector<double> weight_norms = {};
  std::vector<const training::TrainingRecord*> records = {};
};
/// By network and variant.
using VariantOutcomes = std::map<std::pair<std::string, std::string>, VariantOutcome>;

/// The factor of AdamW's weight decay as the optimizer has it, and how many of the finite codes of BF16 it changes.
struct DecayOfCodes {
  float factor = 1;
  std::uint64_t changed = 0, codes = 0;
};
DecayOfCodes decay_in_bf16(double lr, double weight_decay);

void claim_optimizer(const Config& config, const Data& data, const VariantOutcomes& outcomes, Report& report);

}  // namespace halfulp::trainings
