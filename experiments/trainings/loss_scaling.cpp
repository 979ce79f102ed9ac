// loss_scaling: which loss scales recover the gradients of a real training, where a dynamic scale settles, and how it collapses.
#include <halfulp/experiments/trainings/loss_scaling_claims.hpp>
#include <halfulp/experiments/trainings/spread.hpp>
#include <halfulp/experiments/trainings/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  std::vector<Parameter> all = trainings::parameters({"mlp", "amp-fp16", "1"});
  const std::vector<Parameter> own{
      {"formats", Type::formats, "fp16,e5m2,e4m3", "formats that the gradients of the FP32 training are rounded to"},
      {"gradient_steps", Type::integer, "40", "steps of that training", 1, 1e6},
      {"k_from", Type::integer, "-8", "the smallest loss scale that its gradients are multiplied by is 2^k_from", -140, 140},
      {"k_to", Type::integer, "40", "and the largest 2^k_to", -140, 140},
      {"scales", Type::integers, "0,3,8,12,16,20,24", "static loss scales to train with: 2^k", -126, 126},
      {"initial", Type::integers, "0,16,32", "first scales of dynamic loss scaling: 2^k", -126, 126},
      {"growth_interval", Type::integer, "8", "updates without overflow before such a scale grows", 1, 1e9},
      {"collapse_lr", Type::real, "1000", "a learning rate that makes activations overflow", 1e-9, 1e30},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

void refuse_twice(const Config& config, const std::string& name) {
  std::set<std::int64_t> seen;
  for (const std::int64_t k : config.integers(name))
    if (!seen.insert(k).second) throw std::invalid_argument(fmt::format("{}: {} is there twice; accepted: each scale once", name, k));
}

void check(const Config& config) {
  if (config.integer("k_from") > config.integer("k_to"))
    throw std::invalid_argument(fmt::format("k_from is {}, more than k_to, which is {}", config.integer("k_from"), config.integer("k_to")));
  for (const FormatChoice& choice : config.formats("formats"))
    if (!choice.format.has_zero || choice.format.exponent_bits > 8)
      throw std::invalid_argument("formats: " + choice.name + "; accepted: formats with a zero and at most 8 exponent bits");
  refuse_twice(config, "scales");
  refuse_twice(config, "initial");
}

/// Where the result tables of one run go.
class ScalingTables {
 public:
  explicit ScalingTables(Report& report);
  void add(const ScaledRun& run, const NetworkGradients& gradients, bool first_seed);
  void add_static(const ScaledRun& first, const Spread& spread, double fp32);

 private:
  void add_course(const ScaledRun& run);
  Table &static_, &ends_, &dynamic_, &course_, &collapse_;
};

std::vector<Column> with_run(std::vector<Column> columns) {
  std::vector<Column> all{{"network", "", "Network."}, {"policy", "", "Precision policy."}};
  all.insert(all.end(), columns.begin(), columns.end());
  return all;
}

ScalingTables::ScalingTables(Report& report)
    : static_(report.table("static", "Static loss scales", with_run({
          {"k", "binade", "The scale is 2^k."},
          {"skip", "", "Whether steps with Inf or NaN in gradients are left out: yes or no."},
          {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
          {"to_fp32", "1", "Mean accuracy minus that of fp32."},
          {"test_loss", "nat", "Mean test loss of those that did not fail."},
          {"lost", "1", "Share of gradients, of weights and activations, that rounding made zero, in counted steps of the first seed."},
          {"overflowed", "1", "Share that overflowed."},
          {"skipped", "step", "Steps left out, over all seeds."},
          {"failed", "run", "Trainings that ended with parameters that are no numbers."},
          {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."}}))),
      ends_(report.table("ends", "FP16 at the ends of the range that recovers every gradient, for as many steps as gradients were collected from", with_run({
          {"k", "binade", "The scale is 2^k, and static."},
          {"end", "", "Which end of fp16's range."},
          {"steps", "step", "Steps."},
          {"skipped", "step", "Steps left out for Inf or NaN."},
          {"lost", "1", "Share of gradients that rounding made zero, in counted steps."},
          {"predicted_lost", "1", "The same of the gradients collected in FP32."},
          {"overflowed", "1", "Share of gradients that overflowed."},
          {"predicted_overflowed", "1", "The same of the gradients collected in FP32."}}))),
      dynamic_(report.table("dynamic", "Dynamic loss scales", with_run({
          {"k_initial", "binade", "The first scale is 2^k_initial."},
          {"interval", "step", "Updates without overflow before it grows."},
          {"seed", "1", "Seed of the training."},
          {"accuracy", "1", "Test accuracy."},
          {"grew", "step", "Updates at which it grew."},
          {"skipped", "step", "Steps left out, each of which halves it."},
          {"first_good", "step", "The first step that was taken; null if none was."},
          {"lowest", "1", "Lowest scale."},
          {"highest", "1", "Highest scale."},
          {"settled", "1", "The scale of most updates of the second half."},
          {"k_settled", "binade", "Its exponent; null at zero."},
          {"k_to", "binade", "The largest exponent under which no gradient collected in FP32 overflows in fp16."}}))),
      course_(report.table("scale_course", "The course of dynamic scales, the first 200 changes of each training's first seed", with_run({
          {"k_initial", "binade", "The first scale is 2^k_initial."},
          {"interval", "step", "Updates without overflow before it grows."},
          {"step", "step", "The step after which it changed; 0 before the first."},
          {"event", "", "began, grew, backed-off, collapsed."},
          {"scale", "1", "The scale from there on."}}))),
      collapse_(report.table("collapse", "Gradients that no scale makes finite: the scale falls to zero", with_run({
          {"cause", "", "What was done to the training."},
          {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."},
          {"first_nan", "", "The first tensor with a NaN, among what the network computes."},
          {"to_one", "step", "Updates that lowered the scale until it was at most 1; null if it never was."},
          {"to_subnormal", "step", "Until it was subnormal in fp32."},
          {"to_zero", "step", "Until it was zero."},
          {"zero_at", "step", "The step that made it zero."},
          {"streak", "", "The scaler's account of the cause; empty if the scale did not become zero."},
          {"skipped_after", "step", "Steps left out after that."},
          {"unnoticed", "step", "The first step taken although unscaling had made its gradients NaN: 0 times 1/0; null if there was none."},
          {"failed_at", "step", "The step that made a parameter Inf or NaN; null if none did."},
          {"final_scale", "1", "Scale at the end."}}))) {}

Json or_null(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(); }

void ScalingTables::add_static(const ScaledRun& run, const Spread& spread, double fp32) {
  const GradientShares shares = shares_of(run.record);
  static_.row({run.job.settings.network, run.base, run.k, run.skip ? "yes" : "no", number(spread.mean()), number(spread.mean() - fp32), number(spread.mean_loss()),
               number(shares.lost), number(shares.overflowed), spread.skipped, spread.failed, where(run.record.first_infinite)});
}

void ScalingTables::add_course(const ScaledRun& run) {
  const std::string& network = run.job.settings.network;
  course_.row({network, run.base, run.k, run.interval, 0, "began", number(FloatFormat::power_of_two(run.k))});
  std::size_t rows = 0;
  for (const training::ScalerEvent& event : run.record.events)
    if (event.before != event.after && ++rows <= 200) course_.row({network, run.base, run.k, run.interval, event.update, name_of(event.kind), number(event.after)});
}

void ScalingTables::add(const ScaledRun& run, const NetworkGradients& gradients, bool first_seed) {
  const training::TrainingRecord& record = run.record;
  const std::string& network = run.job.settings.network;
  if (run.scaling == Scaling::end) {
    const GradientShares shares = shares_of(record);
    const Recovery predicted = gradients.all.by_limits(fp16, run.k);
    ends_.row({network, run.base, run.k, run.end, record.curve.back().step, record.skipped(), number(shares.lost), share(predicted.lost, gradients.all.elements()),
               number(shares.overflowed), share(predicted.overflowed, gradients.all.elements())});
  } else if (run.scaling == Scaling::dynamic) {
    const std::vector<double> course = course_of(run);
    const double first = FloatFormat::power_of_two(run.k), settled = settled_scale(run);
    std::uint64_t grew = 0, bad = 0;
    for (const training::ScalerEvent& event : record.events) {
      grew += event.kind == training::ScalerEvent::Kind::grew;
      bad += event.kind == training::ScalerEvent::Kind::skipped && static_cast<std::uint64_t>(event.update) == bad;
    }
    dynamic_.row({network, run.base, run.k, run.interval, run.job.settings.seed, number(record.final.accuracy), grew, record.skipped(),
                  bad < course.size() ? Json(bad) : Json(), number(std::min(first, *std::min_element(course.begin(), course.end()))),
                  number(std::max(first, *std::max_element(course.begin(), course.end()))), number(settled), settled > 0 ? Json(std::ilogb(settled)) : Json(),
                  gradients.all.non_zero() ? Json(gradients.all.range_by_limits(fp16).to) : Json()});
    if (first_seed) add_course(run);
  } else if (run.scaling == Scaling::too_fast || run.scaling == Scaling::poisoned) {
    const Descent d = descent_of(record);
    std::uint64_t after = 0;
    for (const training::ScalerEvent& event : record.events)
      after += d.zero_at && event.kind == training::ScalerEvent::Kind::skipped && static_cast<std::uint64_t>(event.update) > *d.zero_at;
    collapse_.row({network, run.base,
                   run.poisoned ? fmt::format("a NaN in one gradient in each of the first {} steps", run.poisoned) : fmt::format("learning rate {}", run.job.settings.optimizer.lr),
                   where(record.first_infinite), where(record.first_nan), or_null(d.to_one), or_null(d.to_subnormal), or_null(d.to_zero), or_null(d.zero_at), d.cause, after,
                   or_null(d.unnoticed), or_null(record.diverged), number(record.curve.back().scale)});
    if (first_seed) add_course(run);
  }
}

std::uint64_t test_examples(const training::Examples& examples) {
  training::Batch batch;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < examples.test_batches(); ++i) {
    examples.test(i, batch);
    all += batch.labels.size();
  }
  return all;
}

/// One network under one policy, its reference first.
void report_runs(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, std::uint64_t first_seed, ScalingTables& tables, Tables& shared, bool with_reference) {
  double fp32 = 0;
  Spread reference;
  for (const ScaledRun& run : runs)
    if (run.scaling == Scaling::reference) reference.add(run.record);
  fp32 = reference.mean();
  std::map<std::pair<int, bool>, Spread> fixed;
  for (const ScaledRun& run : runs)
    if (run.scaling == Scaling::fixed) fixed[{run.k, !run.skip}].add(run.record);
  for (const ScaledRun& run : runs) {
    const bool first = run.job.settings.seed == first_seed;
    if (with_reference || run.scaling != Scaling::reference) shared.add(run.job, run.record, first);
    if (run.scaling == Scaling::fixed && first) tables.add_static(run, fixed.at({run.k, !run.skip}), fp32);
    tables.add(run, gradients, first);
  }
}

void train_all(std::deque<ScaledRun>& runs, bool collapsing, const Data& data, const Config& config, Run& run, double from, double to) {
  std::vector<ScaledRun*> chosen;
  std::vector<Job> jobs;
  for (ScaledRun& r : runs)
    if ((r.scaling == Scaling::too_fast || r.scaling == Scaling::poisoned) == collapsing) {
      chosen.push_back(&r);
      jobs.push_back(r.job);
    }
  const std::vector<training::TrainingRecord> records = train(jobs, data, config, run, from, to);
  for (std::size_t i = 0; i < records.size(); ++i) chosen[i]->record = records[i];
}

void run_loss_scaling(const Config& config, Run& run) {
  check(config);
  const std::vector<training::Policy> policies = chosen_policies(config);
  const Data data(config, config.choices("networks"));
  data.report(run.report);
  std::vector<NetworkGradients> gradients;
  for (const std::string& network : config.choices("networks"))
    if (data.missing(network).empty()) gradients.push_back(collect_gradients(config, network, data));
  run.progress(0.05);
  report_gradients(config, gradients, data, run.report);
  run.progress(0.1);

  std::deque<ScaledRun> runs;
  for (const NetworkGradients& n : gradients)
    for (const training::Policy& policy : policies) plan(config, policy, n, data, data.examples(config, n.network)->steps_per_epoch(), runs);
  // Gradients are saved once. What breaks on purpose has no checkpoints, after which it would not be broken any more.
  Config without = config;
  without.set("save_gradients=");
  train_all(runs, false, data, without, run, 0.1, 0.9);
  without.set("checkpoints=");
  train_all(runs, true, data, without, run, 0.9, 1);

  ScalingTables tables(run.report);
  Tables shared(run.report, "variant", "Policy and loss scaling.");
  claim_scaler(run.report);
  for (const std::string& network : config.choices("networks")) {
    const auto at = std::find_if(gradients.begin(), gradients.end(), [&](const NetworkGradients& n) { return n.network == network; });
    for (const training::Policy& policy : policies) {
      if (at == gradients.end()) {
        skip_loss_scaling(network, policy.name, data.missing(network), run.report);
        continue;
      }
      std::vector<ScaledRun> own;
      for (const ScaledRun& r : runs)
        if (r.job.settings.network == network && (r.scaling == Scaling::reference || r.base == policy.name)) own.push_back(r);
      report_runs(own, *at, static_cast<std::uint64_t>(config.integer("seed")), tables, shared, &policy == &policies.front());
      claim_loss_scaling(own, *at, test_examples(*data.examples(config, network)), run.report);
    }
  }
}

}  // namespace

Experiment loss_scaling_experiment() {
  return {"loss_scaling", "Loss scaling on real gradients",
          "Which loss scales recover a real training's gradients, where does a dynamic scale settle, and how does it collapse?", parameters, run_loss_scaling,
          {"static", {"network", "k", "skip", "accuracy", "to_fp32", "lost", "skipped", "failed"}}};
}

}  // namespace halfulp
