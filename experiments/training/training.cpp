// What is published of the policies, and whether these trainings agree.
#include <halfulp/experiments/publications.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::trainings {

void claim_training(const Config& config, const Data& data, const Outcomes& outcomes, Report& report);

namespace {

/// A policy whose accuracy is said to be fp32's, within `margin` beyond fp32's spread.
struct AsGood {
  const char *id, *policy, *statement;
  Citation source;
  double margin;
};
const AsGood as_good[] = {
    {"amp-fp16",
     "amp-fp16",
     "Autocast to FP16 with FP32 weights and loss scaling is as accurate as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 4"},
     0},
    {"o2",
     "O2",
     "FP16 with FP32 master weights and loss scaling is as accurate as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"},
     0},
    {"amp-bf16",
     "amp-bf16",
     "Autocast to BF16 is as accurate as FP32, without loss scaling.",
     {publications::bf16_without_scaling, "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training"},
     0},
    {"bf16-sr",
     "bf16-sr",
     "Stochastic rounding of updates brings pure BF16 to within 0.2 % of FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
     0.002},
    {"bf16-kahan",
     "bf16-kahan",
     "Kahan summation of updates brings pure BF16 to within 0.2 % of FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
     0.002},
    {"fp8-hybrid",
     "fp8-hybrid",
     "FP8 products, E4M3 forward and E5M2 backward, train as accurately as 16 bits.",
     {publications::fp8_training, "Micikevicius et al. 2022, FP8 Formats for Deep Learning, section 4.1"},
     0.002},
    {"fp8-deepseek",
     "fp8-deepseek",
     "FP8 products with fine-grained scales train as accurately as 16 bits.",
     {publications::fp8_training, "DeepSeek-V3 (2024), section 3.3: relative error of the loss below 0.25 %"},
     0.0025},
    {"mxfp8",
     "mxfp8",
     "MXFP8 products train as accurately as BF16.",
     {publications::fp8_training, "Rouhani et al. 2023, Microscaling Data Formats for Deep Learning, section 5"},
     0.002},
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
     "Everything in FP16, without master weights and loss scaling, fails or loses accuracy.",
     {publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1: 80 % relative"}},
    {"pure-bf16-sr",
     "pure-bf16",
     "bf16-sr",
     "Without stochastic rounding of updates pure BF16 is clearly worse.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"}},
    {"pure-bf16-kahan",
     "pure-bf16",
     "bf16-kahan",
     "Without Kahan summation of updates pure BF16 is clearly worse.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"}},
};

/// Whether policies were run: of others nothing is claimed.
bool ran(const Outcomes& outcomes, const std::string& network, std::initializer_list<const char*> policies) {
  return std::all_of(policies.begin(), policies.end(),
                     [&](const char* policy) { return outcomes.contains({network, policy}); });
}

}  // namespace

void claim_training(const Config& config, const Data& data, const Outcomes& outcomes, Report& report) {
  for (const std::string& network : config.choices("networks")) {
    const std::int64_t seeds = config.integer("seeds");
    const std::string of = fmt::format(
        " (Difference of test accuracies, mean of {} seed{}; twice its standard error is allowed.)", seeds,
        seeds == 1 ? "" : "s");
    for (const AsGood& row : as_good) {
      const std::string id = network + "-" + row.id + "-as-fp32", statement = network + ": " + row.statement + of;
      if (data.missing(network).empty() && !ran(outcomes, network, {"fp32", row.policy})) continue;
      if (const std::string& why = data.missing(network); !why.empty()) {
        report.claim({id, statement, row.source}, skipped(why));
        continue;
      }
      const Spread &fp32 = outcomes.at({network, "fp32"}), &policy = outcomes.at({network, row.policy});
      const Standing s = standing(policy, fp32);
      report.claim(
          {id, statement, row.source},
          at_least(-s.doubt - row.margin, s.difference,
                   may_differ(fmt::format("accuracy {:.4f}, of fp32 {:.4f}; the table `summary` says what was lost",
                                          policy.mean(), fp32.mean()))));
    }
    for (const Worse& row : worse) {
      const std::string id = network + "-" + row.id + "-worse", statement = network + ": " + row.statement + of;
      if (data.missing(network).empty() && !ran(outcomes, network, {row.policy, row.than})) continue;
      if (const std::string& why = data.missing(network); !why.empty()) {
        report.claim({id, statement, row.source}, skipped(why));
        continue;
      }
      const Spread &policy = outcomes.at({network, row.policy}), &than = outcomes.at({network, row.than});
      const Standing s = standing(policy, than);
      report.claim({id, statement, row.source},
                   at_most(-s.doubt, s.difference,
                           may_differ(fmt::format("accuracy {:.4f}, of {} {:.4f}; differences below {:.4f} are within "
                                                  "doubt: longer trainings and more tests "
                                                  "show more",
                                                  policy.mean(), row.than, than.mean(), s.doubt))));
    }
  }
}

}  // namespace halfulp::trainings

// training: networks under every precision policy, and which of them fail, when and why.

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() { return trainings::parameters({"mlp", "all", "3"}); }

void report_policies(const std::vector<training::Policy>& policies, Report& report) {
  Table& table = report.table("policies", "The precision policies",
                              {{"policy", "", "Name."},
                               {"title", "", "What it is."},
                               {"source", "", "Where it comes from."},
                               {"json", "", "The policy itself: saved as a file it can be changed and run."}});
  for (const training::Policy& policy : policies)
    table.row({policy.name, policy.title, policy.source, policy.json.dump()});
}

/// What the optimizer's numbers become in the formats that policies compute updates in.
void report_constants(const std::vector<training::Policy>& policies, const Config& config, Report& report) {
  Table& table = report.table("constants",
                              "What the optimizer's constants are in the formats in which policies update weights",
                              {{"format", "", "Format of the update's arithmetic."},
                               {"constant", "", "Which constant."},
                               {"value", "1", "Its value."},
                               {"in_format", "1", "What the format makes of it."},
                               {"effect", "", "What follows if it is stored or added there; empty: nothing of note."}});
  std::vector<FloatFormat> formats;
  for (const training::Policy& policy : policies)
    if (policy.update.arithmetic &&
        std::find(formats.begin(), formats.end(), policy.update.arithmetic->format) == formats.end())
      formats.push_back(policy.update.arithmetic->format);
  const double beta1 = config.real("beta1"), beta2 = config.real("beta2"), eps = config.real("eps");
  for (const FloatFormat& f : formats) {
    const auto row = [&](const char* name, double value, auto&& effect) {
      const std::uint64_t code = encode(f, {}, value).code;
      table.row({format_name(f), name, number(value), emulated(f, code), effect(f.value(code))});
    };
    const auto one = [](double x) { return x == 1 ? "1 - beta is 0: the mean takes nothing in" : ""; };
    row("beta1", beta1, one);
    row("beta2", beta2, one);
    row("1 - beta2", 1 - beta2, [](double x) { return x == 0 ? "the second moment takes nothing in" : ""; });
    row("eps", eps, [](double x) { return x == 0 ? "no guard against division by zero" : ""; });
  }
}

void run_training(const Config& config, Run& run) {
  const std::vector<training::Policy> policies = chosen_policies(config);
  const std::vector<std::string> networks = config.choices("networks");
  const Data data(config, networks);
  data.report(run.report);
  report_policies(policies, run.report);
  report_constants(policies, config, run.report);
  Table& summary = run.report.table(
      "summary", "Each policy against the reference, over all seeds",
      {{"network", "", "Network."},
       {"policy", "", "Precision policy."},
       {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
       {"lowest", "1", "Lowest of the seeds."},
       {"highest", "1", "Highest of the seeds."},
       {"to_fp32", "1", "Mean accuracy minus that of fp32; null without fp32."},
       {"doubt", "1",
        "Twice the standard error of that difference: by the seeds, or by the number of test answers where that is "
        "larger."},
       {"verdict", "",
        "Failed if some training ended in NaN; below if the mean difference to fp32, seed by seed, is beyond `doubt`; "
        "else within; null without fp32."},
       {"test_loss", "nat", "Mean test loss of those that did not fail."},
       {"swamped", "1", "Share of updates that left their weight as it was, of the first seed."},
       {"underflowed", "1", "Share of gradients, as they arise, that rounding made zero, of the first seed."},
       {"operands_lost", "1", "Share of what enters products that rounding made zero, of the first seed."},
       {"skipped", "step", "Steps left out by the loss scaler, over all seeds."},
       {"why", "", "What the microscope saw of a failure; empty if there was none."},
       {"repair", "", "What is known to help against it."}});
  Tables tables(run.report, "policy", "Precision policy.");

  std::vector<Job> jobs;
  for (const std::string& network : networks) {
    if (!data.missing(network).empty()) continue;
    const auto examples = data.examples(config, network);
    for (const training::Policy& policy : policies)
      for (std::int64_t i = 0; i < config.integer("seeds"); ++i)
        jobs.push_back(make_job(config, network, policy, policy.name,
                                static_cast<std::uint64_t>(config.integer("seed") + i), data, *examples));
  }
  const std::vector<training::TrainingRecord> records = train(jobs, data, config, run);

  Outcomes outcomes;
  const auto seeds = static_cast<std::size_t>(config.integer("seeds"));
  for (std::size_t first = 0; first < jobs.size(); first += seeds) {
    Spread spread;
    for (std::size_t i = first; i < first + seeds; ++i) {
      tables.add(jobs[i], records[i], i == first);
      spread.add(records[i], jobs[i].answers);
    }
    outcomes[{jobs[first].settings.network, jobs[first].variant}] = spread;
  }
  for (std::size_t first = 0; first < jobs.size(); first += seeds) {
    const Job& job = jobs[first];
    const Spread& spread = outcomes.at({job.settings.network, job.variant});
    const auto reference = outcomes.find({job.settings.network, "fp32"});
    const Spread* const fp32 = reference == outcomes.end() ? nullptr : &reference->second;
    const Standing to_fp32 = fp32 ? standing(spread, *fp32) : Standing{};
    const bool worse = spread.failed || to_fp32.below();
    const Evidence evidence = evidence_of(records[first]);
    std::size_t worst = first;
    for (std::size_t i = first; i < first + seeds; ++i)
      if (records[i].final.accuracy < records[worst].final.accuracy) worst = i;
    const Diagnosis diagnosis = diagnose(records[worst], worse);
    summary.row({job.settings.network, job.variant, number(spread.mean()), number(spread.lowest),
                 number(spread.highest), fp32 ? number(to_fp32.difference) : Json(),
                 fp32 ? number(to_fp32.doubt) : Json(),
                 spread.failed ? Json("failed")
                 : !fp32       ? Json()
                               : Json(worse ? "below" : "within"),
                 number(spread.mean_loss()), number(evidence.swamped), number(evidence.gradients_underflowed),
                 number(evidence.operands_underflowed), spread.skipped, diagnosis.why, diagnosis.repair});
  }
  claim_training(config, data, outcomes, run.report);
}

}  // namespace

Experiment training_experiment() {
  return {"training",
          "Training under precision policies",
          "Which precision policies train as well as FP32, which fail, when and why, and what repairs them?",
          parameters,
          run_training,
          {"summary", {"network", "policy", "accuracy", "to_fp32", "verdict", "swamped", "operands_lost"}}};
}

}  // namespace halfulp
