// training: networks under every precision policy, and which of them fail, when and why.

#include <halfulp/experiments/learning_rates.hpp>
#include <halfulp/experiments/training/training.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() {
  std::vector<Parameter> all = trainings::parameters({"mlp", "all", "3"});
  all.insert(all.end(), {accuracy_margin(), loss_margin()});
  for (Parameter& p : learning_rate_parameters("1e-3,1e-4,1e-5", "bf16,fp16,e4m3")) all.push_back(std::move(p));
  return all;
}

/// A policy under its own name, or with an eps that its arithmetic can hold.
struct PolicyRun {
  const training::Policy* policy;
  std::string name, label;  ///< for tables, and of its checkpoint
  double eps;
};

/// Every policy; behind one whose arithmetic makes Adam's eps 0, the same with 1e-4, so that this cause is told apart
/// from others.
std::vector<PolicyRun> runs_of(const std::vector<training::Policy>& policies, const Config& config) {
  constexpr double large = 1e-4;
  std::vector<PolicyRun> runs;
  const double eps = config.real("eps");
  for (const training::Policy& policy : policies) {
    runs.push_back({&policy, policy.name, policy.name, eps});
    if (!policy.update.arithmetic || config.text("optimizer") == "sgd" || eps == 0 || eps >= large) continue;
    const FloatFormat& f = policy.update.arithmetic->format;
    if (f.value(encode(f, {}, eps).code) == 0 && f.value(encode(f, {}, large).code) != 0)
      runs.push_back({&policy, policy.name + ", eps 1e-4", policy.name + "-eps-1e-4", large});
  }
  return runs;
}

/// Whether two trainings went the same way to the last bit.
bool same(const training::TrainingRecord& a, const training::TrainingRecord& b) {
  if (a.curve.size() != b.curve.size() || a.diverged != b.diverged) return false;
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  for (std::size_t i = 0; i < a.curve.size(); ++i)
    if (bits(a.curve[i].loss) != bits(b.curve[i].loss) ||
        bits(a.curve[i].gradient_norm) != bits(b.curve[i].gradient_norm))
      return false;
  return bits(a.final.loss) == bits(b.final.loss) && bits(a.final.accuracy) == bits(b.final.accuracy);
}

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

Table& summary_table(Report& report) {
  return report.table(
      "summary", "Each policy against the reference, over all seeds",
      {{"network", "", "Network."},
       {"policy", "", "Precision policy, as published or with an eps of Adam that its arithmetic does not round to 0."},
       {"same", "",
        "Policies whose trainings of this network are the same bit for bit: they have no row of their own."},
       {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
       {"lowest", "1", "Lowest of the seeds."},
       {"highest", "1", "Highest of the seeds."},
       {"to_fp32", "1",
        "Accuracy minus that of fp32, mean over seeds and test examples, which both share; null without fp32."},
       {"doubt", "1", "Half the width of the 95 % confidence interval of that difference, by seeds and by examples."},
       {"verdict", "",
        "Failed if some training ended in NaN; within if to_fp32 - doubt is at least -margin; below if to_fp32 is "
        "negative beyond doubt; else cannot tell; null without fp32."},
       {"test_loss", "nat", "Mean test loss of those that did not fail."},
       {"loss_to_fp32", "nat", "Test loss minus that of fp32; NaN if one failed; null without fp32."},
       {"loss_doubt", "nat", "Half the width of its 95 % confidence interval."},
       {"loss_verdict", "",
        "The same verdict of losses, which are above where accuracies are below, and where they are ten times as large "
        "in every seed."},
       {"swamped", "1", "Share of updates that left their weight as it was, of the first seed."},
       {"underflowed", "1", "Share of gradients, as they arise, that rounding made zero, of the first seed."},
       {"operands_lost", "1", "Share of what enters products that rounding made zero, of the first seed."},
       {"skipped", "step", "Steps left out by the loss scaler, over all seeds."},
       {"why", "", "What the microscope saw of a failure; empty if there was none."},
       {"repair", "", "What is known to help against it."}});
}

void run_training(const Config& config, Run& run) {
  const std::vector<training::Policy> policies = chosen_policies(config);
  const std::vector<std::string> networks = config.choices("networks");
  LearningRates rates(config);
  const Data data(config, networks);
  data.report(run.report);
  report_policies(policies, run.report);
  report_constants(policies, config, run.report);
  Table& summary = summary_table(run.report);
  Tables tables(run.report, "policy", "Precision policy.");

  const auto seeds = static_cast<std::size_t>(config.integer("seeds"));
  const auto make = [&](const std::string& network, const training::Policy& policy, const std::string& name,
                        std::size_t i) {
    const auto seed = static_cast<std::uint64_t>(config.integer("seed")) + i;
    return make_job(config, network, policy, name, seed, data, *data.examples(config, network));
  };
  std::vector<Job> jobs;
  for (const std::string& network : networks) {
    if (!data.missing(network).empty()) continue;
    for (const PolicyRun& one : runs_of(policies, config))
      for (std::size_t i = 0; i < seeds; ++i) {
        jobs.push_back(make(network, *one.policy, one.name, i));
        jobs.back().label = fmt::format("{}-{}-{}", network, one.label, jobs.back().settings.seed);
        jobs.back().settings.optimizer.eps = one.eps;
      }
  }
  const std::size_t of_policies = jobs.size();
  rates.plan(data, jobs, make);
  if (run.only_operands) return record_operands(jobs, data, config, run);
  const std::vector<training::TrainingRecord> records = train(jobs, data, config, run);

  // The first of those that went the same way shows what all of them do.
  Outcomes outcomes;
  std::vector<std::size_t> shown;
  std::map<std::size_t, std::string> alike;
  for (std::size_t first = 0; first < of_policies; first += seeds) {
    Spread& spread = outcomes[{jobs[first].settings.network, jobs[first].variant}];
    for (std::size_t i = first; i < first + seeds; ++i) spread.add(records[i]);
    const auto twin = std::find_if(shown.begin(), shown.end(), [&](std::size_t other) {
      bool all = jobs[other].settings.network == jobs[first].settings.network;
      for (std::size_t i = 0; i < seeds; ++i) all = all && same(records[other + i], records[first + i]);
      return all;
    });
    if (twin == shown.end()) shown.push_back(first);
    else alike[*twin] += (alike[*twin].empty() ? "" : ", ") + jobs[first].variant;
  }
  const double margin = config.real("margin"), loss_margin = config.real("loss_margin");
  for (const std::size_t first : shown) {
    const Job& job = jobs[first];
    for (std::size_t i = first; i < first + seeds; ++i) tables.add(jobs[i], records[i], i == first);
    const Spread& spread = outcomes.at({job.settings.network, job.variant});
    const auto reference = outcomes.find({job.settings.network, "fp32"});
    const Spread* const fp32 = reference == outcomes.end() ? nullptr : &reference->second;
    const Standing to_fp32 = fp32 ? standing(spread, *fp32) : Standing{},
                   loss = fp32 ? standing(spread, *fp32, Measure::loss) : Standing{};
    const auto compared = [&](double x) { return fp32 ? number(x) : Json(); };
    const Evidence evidence = evidence_of(records[first]);
    std::size_t worst = first;
    for (std::size_t i = first; i < first + seeds; ++i)
      if (records[i].final.accuracy < records[worst].final.accuracy) worst = i;
    const Diagnosis diagnosis = diagnose(records[worst], spread.failed() || to_fp32.below());
    summary.row({job.settings.network, job.variant, alike[first], number(spread.mean()), number(spread.lowest()),
                 number(spread.highest()), compared(to_fp32.difference), compared(to_fp32.doubt),
                 fp32 ? Json(verdict(spread, *fp32, margin)) : Json(), number(spread.mean_loss()),
                 compared(loss.difference), compared(loss.doubt),
                 fp32 ? Json(verdict(spread, *fp32, loss_margin, Measure::loss)) : Json(), number(evidence.swamped),
                 number(evidence.gradients_underflowed), number(evidence.operands_underflowed), spread.skipped,
                 diagnosis.why, diagnosis.repair});
  }
  rates.report(data, jobs, records, tables, run.report);
  claim_policies(config, data, outcomes, run.report);
}

}  // namespace

namespace {

/// "; at lr 1e-5 ...": what the smallest steps do to plain weights of the first format that they hurt, and the most
/// that repaired ones lose there.
std::string small_steps_finding(const ReportTables& tables) {
  const auto plain = tables.rows("learning_rates", {{"weights", "plain"}, {"rest", "fp32"}});
  for (const TableRow& first : plain) {
    const auto hurt = tables.rows("learning_rates", {{"weights", "plain"},
                                                     {"rest", "fp32"},
                                                     {"verdict", "below"},
                                                     {"network", first["network"]},
                                                     {"format", first["format"]}});
    const TableRow* const worst = smallest(hurt, "to_fp32");
    if (!worst) continue;
    double left = 0;
    for (const TableRow& other : tables.rows(
             "learning_rates",
             {{"rest", "fp32"}, {"network", first["network"]}, {"format", first["format"]}, {"lr", (*worst)["lr"]}}))
      if (other.text("weights") != "plain") left = std::max(left, -other.number("to_fp32"));
    return fmt::format("; at lr {} {} weights lose {} ± {} points, repaired {}.", in_words(worst->number("lr")),
                       worst->text("format"), in_words(-100 * worst->number("to_fp32")),
                       in_words(100 * worst->number("doubt")), in_words(100 * left));
  }
  return ".";
}

/// How many policies train well, and what small steps do to narrow weights.
std::string training_finding(const ReportTables& tables) {
  const std::string verdicts = verdicts_finding(tables, "policy", "fp32");
  return verdicts.empty() ? verdicts : verdicts + small_steps_finding(tables);
}

}  // namespace

Experiment training_experiment() {
  return {"training",
          "Training under precision policies",
          "Which precision policies train as well as FP32?",
          parameters,
          run_training,
          training_finding,
          {"summary", {"network", "policy", "accuracy", "verdict", "loss_verdict", "swamped"}}};
}

}  // namespace halfulp
