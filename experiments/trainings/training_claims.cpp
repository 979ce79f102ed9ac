#include <halfulp/experiments/trainings/training_claims.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::trainings {
namespace {

/// A policy whose accuracy is said to be fp32's, within `margin` beyond fp32's spread.
struct AsGood {
  const char *id, *policy, *statement, *source;
  double margin;
};
constexpr AsGood as_good[] = {
    {"amp-fp16", "amp-fp16", "Autocast to FP16 with FP32 weights and loss scaling is as accurate as FP32.", "Micikevicius et al. 2018, Mixed Precision Training, section 4", 0},
    {"o2", "O2", "FP16 with FP32 master weights and loss scaling is as accurate as FP32.", "Micikevicius et al. 2018, Mixed Precision Training, section 3.1", 0},
    {"amp-bf16", "amp-bf16", "Autocast to BF16 is as accurate as FP32, without loss scaling.", "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training", 0},
    {"bf16-sr", "bf16-sr", "Stochastic rounding of updates brings pure BF16 to within 0.2 % of FP32.", "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5", 0.002},
    {"bf16-kahan", "bf16-kahan", "Kahan summation of updates brings pure BF16 to within 0.2 % of FP32.", "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5", 0.002},
    {"fp8-hybrid", "fp8-hybrid", "FP8 products, E4M3 forward and E5M2 backward, train as accurately as 16 bits.", "Micikevicius et al. 2022, FP8 Formats for Deep Learning, section 4.1", 0.002},
    {"fp8-deepseek", "fp8-deepseek", "FP8 products with fine-grained scales train as accurately as 16 bits.", "DeepSeek-V3 (2024), section 3.3: relative error of the loss below 0.25 %", 0.0025},
    {"mxfp8", "mxfp8", "MXFP8 products train as accurately as BF16.", "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, section 5", 0.002},
};

/// A policy that is said to be worse than another.
struct Worse {
  const char *id, *policy, *than, *statement, *source;
};
constexpr Worse worse[] = {
    {"pure-fp16", "pure-fp16", "fp32", "Everything in FP16, without master weights and loss scaling, fails or loses accuracy.", "Micikevicius et al. 2018, Mixed Precision Training, section 3.1: 80 % relative"},
    {"pure-bf16-sr", "pure-bf16", "bf16-sr", "Without stochastic rounding of updates pure BF16 is clearly worse.", "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
    {"pure-bf16-kahan", "pure-bf16", "bf16-kahan", "Without Kahan summation of updates pure BF16 is clearly worse.", "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
};

/// Whether policies were run: of others nothing is claimed.
bool ran(const Outcomes& outcomes, const std::string& network, std::initializer_list<const char*> policies) {
  return std::all_of(policies.begin(), policies.end(), [&](const char* policy) { return outcomes.contains({network, policy}); });
}

}  // namespace

void claim_training(const Config& config, const Data& data, const Outcomes& outcomes, Report& report) {
  for (const std::string& network : config.choices("networks")) {
    const std::int64_t seeds = config.integer("seeds");
    const std::string of = fmt::format(" (Difference of test accuracies, mean of {} seed{}; twice its standard error is allowed.)", seeds, seeds == 1 ? "" : "s");
    for (const AsGood& row : as_good) {
      const std::string id = network + "-" + row.id + "-as-fp32", statement = network + ": " + row.statement + of;
      if (data.missing(network).empty() && !ran(outcomes, network, {"fp32", row.policy})) continue;
      if (const std::string& why = data.missing(network); !why.empty()) {
        report.claim(skipped(id, statement, row.source, why));
        continue;
      }
      const Spread &fp32 = outcomes.at({network, "fp32"}), &policy = outcomes.at({network, row.policy});
      const Standing s = standing(policy, fp32);
      Claim claim = at_least(id, statement, row.source, -s.doubt - row.margin, s.difference, "published", Verdict::differs);
      if (claim.verdict == Verdict::differs) claim.reason = fmt::format("accuracy {:.4f}, of fp32 {:.4f}; the table `summary` says what was lost", policy.mean(), fp32.mean());
      report.claim(std::move(claim));
    }
    for (const Worse& row : worse) {
      const std::string id = network + "-" + row.id + "-worse", statement = network + ": " + row.statement + of;
      if (data.missing(network).empty() && !ran(outcomes, network, {row.policy, row.than})) continue;
      if (const std::string& why = data.missing(network); !why.empty()) {
        report.claim(skipped(id, statement, row.source, why));
        continue;
      }
      const Spread &policy = outcomes.at({network, row.policy}), &than = outcomes.at({network, row.than});
      const Standing s = standing(policy, than);
      Claim claim = at_most(id, statement, row.source, -s.doubt, s.difference, "published", Verdict::differs);
      if (claim.verdict == Verdict::differs)
        claim.reason = fmt::format("accuracy {:.4f}, of {} {:.4f}; differences below {:.4f} are within doubt: longer trainings and more tests show more", policy.mean(), row.than, than.mean(), s.doubt);
      report.claim(std::move(claim));
    }
  }
}

}  // namespace halfulp::trainings
