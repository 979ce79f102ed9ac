// What is published of the policies, and whether these trainings agree.
#include <halfulp/experiments/publications.hpp>
#include <halfulp/experiments/training/training.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::trainings {

namespace {

/// A policy whose accuracy is said to be fp32's; `broken` is the one that it repairs, if any.
struct AsGood {
  const char *id, *policy, *statement;
  Citation source;
  const char* broken = nullptr;
};
const AsGood as_good[] = {
    {"amp-fp16",
     "amp-fp16",
     "Autocast to FP16 with FP32 weights and loss scaling is as accurate as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 4"}},
    {"o2",
     "O2",
     "FP16 with FP32 master weights and loss scaling is as accurate as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"}},
    {"amp-bf16",
     "amp-bf16",
     "Autocast to BF16 is as accurate as FP32, without loss scaling.",
     {publications::bf16_without_scaling, "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training"}},
    {"bf16-sr",
     "bf16-sr",
     "Stochastic rounding of updates brings back what pure BF16 loses, to within margin of FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
     "pure-bf16"},
    {"bf16-kahan",
     "bf16-kahan",
     "Kahan summation of updates brings back what pure BF16 loses, to within margin of FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
     "pure-bf16"},
    {"fp8-hybrid",
     "fp8-hybrid",
     "FP8 products, E4M3 forward and E5M2 backward, train as accurately as FP32 (published: as 16 bits).",
     {publications::fp8_training, "Micikevicius et al. 2022, FP8 Formats for Deep Learning, section 4.1"}},
    {"fp8-deepseek",
     "fp8-deepseek",
     "FP8 products with fine-grained scales train as accurately as FP32 (published: the loss within 0.25 % of BF16's).",
     {publications::fp8_training, "DeepSeek-V3 (2024), section 3.3: relative error of the loss below 0.25 %"}},
    {"mxfp8",
     "mxfp8",
     "MXFP8 products train as accurately as FP32.",
     {publications::fp8_training, "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, section 5"}},
};

/// A policy that is said to be worse than another.
struct Worse {
  const char *id, *policy, *than, *statement;
  Citation source;
};
const Worse worse[] = {
    {"pure-fp16",
     "pure-fp16",
     "fp32",
     "Everything in FP16 fails or loses accuracy; Adam's usual eps is cause enough, because FP16 makes it 0.",
     {publications::adam_constants, "derived: numbers of at most 2^-25 round to 0; g^2 and eps are both 0"}},
    {"pure-fp16-eps-1e-4",
     "pure-fp16, eps 1e-4",
     "fp32",
     "Everything in FP16, even with an eps that FP16 can hold, loses accuracy without master weights and loss scaling.",
     {publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1: 80 % relative"}},
};

}  // namespace

void claim_policies(const Config& config, const Data& data, const Outcomes& outcomes, Report& report) {
  const std::int64_t seeds = config.integer("seeds");
  const double margin = config.real("margin");
  for (const std::string& network : config.choices("networks")) {
    const std::string of = fmt::format(" (Test accuracies of {} seed{}, paired by seed and example.)", seeds,
                                       seeds == 1 ? "" : "s");
    const auto claim = [&](const char* row, const std::string& id, const std::string& statement, const Citation& source,
                           const char* policy, const char* than, auto&& judge) {
      std::string absent;
      for (const std::string one : {policy, than}) {
        if (outcomes.contains({network, one})) continue;
        const std::string name = one.substr(0, one.find(','));  // "pure-fp16, eps 1e-4" is a run of pure-fp16
        absent = outcomes.contains({network, name}) ? one + " is not run with this optimizer and eps"
                 : absent.empty()                   ? "policies does not name " + name
                                                    : absent + " and " + name;
      }
      const std::string& missing = data.missing(network);
      report.claim({fmt::format("{}-{}-{}", network, row, id), network + ": " + statement + of, source},
                   !missing.empty()  ? skipped(missing)
                   : !absent.empty() ? skipped(absent)
                                     : judge(outcomes.at({network, policy}), outcomes.at({network, than})));
    };
    for (const AsGood& row : as_good)
      claim(row.id, "as-fp32", row.statement, row.source, row.policy, "fp32",
            [&](const Spread& policy, const Spread& fp32) {
              if (!row.broken) return judge_no_worse(policy, fp32, margin, "fp32");
              const auto broken = outcomes.find({network, row.broken});
              return broken == outcomes.end() ? skipped(fmt::format("policies does not name {}", row.broken))
                                              : judge_repair(policy, broken->second, fp32, margin, "fp32");
            });
    for (const Worse& row : worse)
      claim(row.id, "worse", row.statement, row.source, row.policy, row.than,
            [&](const Spread& policy, const Spread& than) { return judge_worse(policy, than, margin, row.than); });
    if (!is_text(network)) continue;
    const bool ran = outcomes.contains({network, "fp32"}), enough = config.text("preset") != "small";
    report.claim({network + "-beats-a-bigram",
                  network + ": trained in FP32 it predicts the next character better than counting pairs does.",
                  "derived: a network that does not beat it has learned little that rounding could take away"},
                 !data.missing(network).empty() ? skipped(data.missing(network))
                 : !ran                         ? skipped("policies does not name fp32")
                 : !enough                      ? skipped("the preset small trains for a few steps")
                           : at_most(data.bigram_loss(), outcomes.at({network, "fp32"}).mean_loss(),
                                     may_differ("steps, context or width of the configuration are small")));
  }
}

}  // namespace halfulp::trainings
