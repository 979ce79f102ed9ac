// What the experiment `optimizer` varies: a policy with some changes, and numbers of the optimizer.
#pragma once

#include <halfulp/training/policy.hpp>
#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::trainings {

/// Questions that variants belong to.
inline constexpr std::string_view optimizer_groups[] = {"eps",   "betas",     "master",   "states", "decay",
                                                        "batch", "embedding", "abnormal", "spikes"};

/// One variant. Numbers below 0 leave what the configuration says.
struct OptimizerVariant {
  std::string_view group;  ///< one of the above; "": the reference, part of all
  std::string_view name;
  std::string_view what;            ///< what it is, for a table
  std::string_view base;            ///< a named policy
  std::string_view changes = "{}";  ///< JSON: members of a policy that take the place of the base's
  double eps = -1, beta2 = -1;
  double decay = -1;                    ///< of AdamW, then
  double shrink = -1;                   ///< embedding_shrink
  double skip = -1;                     ///< skip_abnormal
  bool planted = false;                 ///< the gradients of one step are multiplied by `planted_factor`
  double lr = -1;                       ///< learning rate
  std::string_view reference = "fp32";  ///< the variant that it is compared with
  bool sgd = false;                     ///< instead of Adam
  std::string_view set = "";            ///< "width=32 steps=300": parameters, where the configuration has 0
};

/// Images: eps, betas, master, states, decay, batch. Text: embedding, abnormal, spikes. The reference is for both.
bool is_of_text(const OptimizerVariant& variant);
std::span<const OptimizerVariant> optimizer_variants();

/// The variant's policy, by the variant's name.
training::Policy policy_of(const OptimizerVariant& variant);

/// What a broken sum over ranks, or a batch of rubbish, does to a gradient is no constant; this one is beyond doubt.
inline constexpr float planted_factor = 1000;
/// The step in which it happens: late enough for a running mean of norms.
constexpr std::uint64_t planted_step(std::uint64_t steps) { return steps * 3 / 4; }

// What follows from formats for Adam's numbers, what is published of its states, and whether trainings agree.

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

/// The table `instability` of the group spikes: how often gradients and losses spike, and what repairs it.
void report_instability(const std::string& network, const VariantOutcomes& outcomes, Table& table);
void claim_instability(const std::string& network, const std::string& of, const VariantOutcomes& outcomes,
                       Report& report);
/// The table `batches` of the group batch.
void report_batches(const std::string& network, const VariantOutcomes& outcomes, Table& table);
void claim_batches(const std::string& network, const std::string& of, const VariantOutcomes& outcomes, Report& report);
std::vector<Column> instability_columns();
std::vector<Column> batches_columns();
inline constexpr int batch_sizes[] = {16, 64, 256, 1024, 4096};

void claim_optimizer(const Config& config, const Data& data, const VariantOutcomes& outcomes, Report& report);

}  // namespace halfulp::trainings
