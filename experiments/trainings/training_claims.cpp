#include <halfulp/experiments/trainings/training_claims.hpp>

#include <fmt/format.h>

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

std::string not_here(const Outcomes& outcomes, const std::string& network, std::initializer_list<const char*> policies) {
  for (const char* const policy : policies)
    if (!outcomes.contains({network, policy})) return fmt::format("policies does not name {}", policy);
  return "";
}

}  // namespace

void claim_training(const Config& config, const Data& data, const Outcomes& outcomes, Report& report) {
  for (const std::string& network : config.choices("networks")) {
    const std::string of = fmt::format(" (Test accuracy, mean of {} seeds.)", config.integer("seeds"));
    const auto reason = [&](std::initializer_list<const char*> policies) { return data.missing(network).empty() ? not_here(outcomes, network, policies) : data.missing(network); };
    for (const AsGood& row : as_good) {
      const std::string id = network + "-" + row.id + "-as-fp32", statement = network + ": " + row.statement + of;
      if (const std::string why = reason({"fp32", row.policy}); !why.empty()) {
        report.claim(skipped(id, statement, row.source, why));
        continue;
      }
      const Spread &fp32 = outcomes.at({network, "fp32"}), &policy = outcomes.at({network, row.policy});
      // Seeds move accuracies about: what fp32's own seeds do counts as equal.
      const double spread = fp32.highest - fp32.lowest;
      Claim claim = at_least(id, statement, row.source, fp32.mean() - spread - row.margin, policy.mean(), "published", Verdict::differs);
      if (claim.verdict == Verdict::differs) claim.reason = fmt::format("fp32: {:.4f}, its seeds {:.4f} apart; the table `summary` says what was lost", fp32.mean(), spread);
      report.claim(std::move(claim));
    }
    for (const Worse& row : worse) {
      const std::string id = network + "-" + row.id + "-worse", statement = network + ": " + row.statement + of;
      if (const std::string why = reason({row.policy, row.than}); !why.empty()) {
        report.claim(skipped(id, statement, row.source, why));
        continue;
      }
      const Spread &policy = outcomes.at({network, row.policy}), &than = outcomes.at({network, row.than});
      const double spread = than.highest - than.lowest;
      Claim claim = at_most(id, statement, row.source, than.mean() - spread, policy.mean(), "published", Verdict::differs);
      if (claim.verdict == Verdict::differs)
        claim.reason = fmt::format("{}: {:.4f}, its seeds {:.4f} apart: the difference is within these; longer trainings and smaller learning rates show more", row.than, than.mean(), spread);
      report.claim(std::move(claim));
    }
  }
}

}  // namespace halfulp::trainings
