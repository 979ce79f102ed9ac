#include <halfulp/experiments/loss_scaling/loss_scaling.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace halfulp::trainings {
namespace {

using training::Role;
using training::ScalerEvent;

/// The policy under another name, with another loss scaling.
training::Policy scaled(const training::Policy& policy, const std::string& name, Json scaling) {
  Json json = policy.json;
  json["name"] = name;
  json["loss_scaling"] = std::move(scaling);
  return training::parse_policy(json, name);
}

Json fixed_scale(int k, bool skip) {
  return {{"kind", "static"}, {"scale", FloatFormat::power_of_two(k)}, {"skip", skip}};
}
Json dynamic_scale(int k, std::int64_t interval) {
  return {{"kind", "dynamic"}, {"scale", FloatFormat::power_of_two(k)}, {"interval", interval}};
}

ScaledRun begun(Scaling scaling, int k, std::int64_t interval = 0) {
  ScaledRun run;
  run.scaling = scaling, run.k = k, run.interval = interval;
  return run;
}

/// A NaN as the first gradient of all in each step before `steps`.
void poison(training::Trainer& trainer, std::uint64_t steps) {
  trainer.after_backward = [steps](training::Trainer& t) {
    if (t.steps() >= steps) return;
    for (training::TrainedParameter<float>* const p : t.parameters()) {
      if (!p->has_gradient) continue;
      p->gradient.values()[0] = std::numeric_limits<float>::quiet_NaN();
      return;
    }
  };
}

}  // namespace

void plan(const Config& config, const training::Policy& policy, const NetworkGradients& gradients, const Data& data,
          const training::Examples& examples, std::deque<ScaledRun>& runs) {
  const std::string& network = gradients.network;
  const auto first_seed = static_cast<std::uint64_t>(config.integer("seed"));
  const auto add = [&](ScaledRun run, const std::string& how, std::optional<Json> scaling,
                       std::uint64_t seed) -> ScaledRun& {
    run.base = policy.name;
    const std::string variant = policy.name + how;
    run.policy = scaling ? scaled(policy, variant, *scaling) : policy;
    ScaledRun& kept = runs.emplace_back(std::move(run));
    kept.job = make_job(config, network, kept.policy, variant, seed, data, examples);
    return kept;
  };
  const bool has_reference = std::any_of(runs.begin(), runs.end(), [&](const ScaledRun& r) {
    return r.scaling == Scaling::reference && r.job.settings.network == network;
  });
  for (std::int64_t i = 0; i < config.integer("seeds"); ++i) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
    if (!has_reference) {
      ScaledRun& reference = add(begun(Scaling::reference, 0), "", {}, seed);
      reference.base = "fp32";
      reference.policy = training::find_policy("fp32");
      reference.job.variant = "fp32";
      reference.job.label = fmt::format("{}-fp32-{}", network, seed);
    }
    for (const std::int64_t k : config.integers("scales"))
      for (const bool skip : {true, false}) {
        ScaledRun run = begun(Scaling::fixed, static_cast<int>(k));
        run.skip = skip;
        add(std::move(run), fmt::format("-static-{}{}", k, skip ? "" : "-noskip"),
            fixed_scale(static_cast<int>(k), skip), seed);
      }
    // torch.amp.GradScaler's defaults, then what the user asks for.
    add(begun(Scaling::dynamic, 16, 2000), "-dynamic", dynamic_scale(16, 2000), seed);
    for (const std::int64_t k : config.integers("initial")) {
      const std::int64_t interval = config.integer("growth_interval");
      add(begun(Scaling::dynamic, static_cast<int>(k), interval), fmt::format("-dynamic-{}-every-{}", k, interval),
          dynamic_scale(static_cast<int>(k), interval), seed);
    }
  }
  if (gradients.all.non_zero()) {
    const ScaleRange range = gradients.all.range_by_limits(fp16);
    std::map<int, std::string> ends;  // a scale each, by all its names
    const auto name = [&](int k, const char* end) { ends[k] += (ends[k].empty() ? "" : ", ") + std::string(end); };
    name(0, "unscaled"), name(range.from, "k_from"), name(range.to, "k_to");
    name(range.to + 1, "k_to + 1"), name(range.to + 2, "k_to + 2");
    for (const auto& [k, end] : ends) {
      if (std::abs(k) > 126) continue;
      ScaledRun run = begun(Scaling::end, k);
      run.end = end;
      ScaledRun& kept = add(std::move(run), fmt::format("-end-{}", k), fixed_scale(k, true), first_seed);
      kept.job.settings = gradient_settings(config, network, data);
    }
  }
  // Long enough for a scale of 2^16 to become zero, and for some steps after that.
  constexpr std::uint64_t poisoned = updates_to_zero + 10, steps = poisoned + 20;
  for (const Scaling scaling : {Scaling::too_fast, Scaling::poisoned}) {
    ScaledRun run = begun(scaling, 16, 2000);
    run.poisoned = scaling == Scaling::poisoned ? poisoned : 0;
    ScaledRun& kept = add(std::move(run), scaling == Scaling::poisoned ? "-collapse-nan" : "-collapse-lr",
                          dynamic_scale(16, 2000), first_seed);
    kept.job.settings.steps = steps;
    kept.job.settings.interval = steps / 4;
    if (scaling == Scaling::poisoned) {
      kept.job.start = {{"poisoned", poisoned}};
      kept.job.attend = [](training::Trainer& trainer) { poison(trainer, poisoned); };
    } else kept.job.settings.optimizer.lr = config.real("collapse_lr");
  }
}

std::vector<double> course_of(const ScaledRun& run) {
  const std::uint64_t steps = run.record.curve.empty() ? 0 : run.record.curve.back().step;
  std::vector<double> scales(steps, FloatFormat::power_of_two(run.k));
  for (const ScalerEvent& event : run.record.events)
    if (event.before != event.after)
      std::fill(scales.begin() + std::min<std::ptrdiff_t>(event.update, std::ssize(scales)), scales.end(), event.after);
  return scales;
}

double settled_scale(const ScaledRun& run) {
  const std::vector<double> course = course_of(run);
  std::map<double, std::uint64_t> updates;
  for (std::size_t i = course.size() / 2; i < course.size(); ++i) ++updates[course[i]];
  const auto most = std::max_element(updates.begin(), updates.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == updates.end() ? 0 : most->first;
}

GradientShares shares_of(const training::TrainingRecord& record) {
  std::uint64_t elements = 0, lost = 0, overflowed = 0;
  for (const training::CurvePoint& point : record.curve)
    for (const auto& t : point.tensors) {
      if (t.operand || (t.role != Role::gradient_of_activation && t.role != Role::gradient_of_weight)) continue;
      elements += t.elements, lost += t.underflowed, overflowed += t.overflowed;
    }
  const auto share_of = [&](std::uint64_t part) {
    return elements ? static_cast<double>(part) / static_cast<double>(elements) : 0.0;
  };
  return {share_of(lost), share_of(overflowed)};
}

Descent descent_of(const training::TrainingRecord& record) {
  Descent d;
  std::uint64_t lowered = 0;
  for (const ScalerEvent& event : record.events) {
    const auto step = static_cast<std::uint64_t>(event.update);
    if (event.kind == ScalerEvent::Kind::unnoticed && !d.unnoticed) d.unnoticed = step;
    if (event.after >= event.before) continue;
    ++lowered;
    if (event.after <= 1 && !d.to_one) d.to_one = lowered;
    if (event.after < 0x1p-126 && !d.to_subnormal) d.to_subnormal = lowered;
    if (event.after == 0 && !d.to_zero) d.to_zero = lowered, d.zero_at = step;
    if (event.kind == ScalerEvent::Kind::collapsed && d.cause.empty()) d.cause = description(event);
  }
  return d;
}

}  // namespace halfulp::trainings

// loss_scaling: which loss scales recover the gradients of a real training, where a dynamic scale settles, and how it
// collapses.

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  std::vector<Parameter> all = trainings::parameters({"mlp", "amp-fp16", "1"});
  const std::vector<Parameter> own{
      {"formats", Type::formats, "fp16,e5m2,e4m3", "formats that the gradients of the FP32 training are rounded to"},
      {"gradient_steps", Type::integer, "40", "steps of that training", 1, 1e6},
      {"k_from", Type::integer, "-8", "the smallest loss scale that its gradients are multiplied by is 2^k_from", -140,
       140},
      {"k_to", Type::integer, "40", "and the largest 2^k_to", -140, 140},
      {"scales", Type::integers, "0,3,8,16,20,24", "static loss scales to train with: 2^k", -126, 126},
      {"initial", Type::integers, "0,16,32", "first scales of dynamic loss scaling: 2^k", -126, 126},
      {"growth_interval", Type::integer, "8", "updates without overflow before such a scale grows", 1, 1e9},
      {"collapse_lr", Type::real, "1000", "a learning rate that makes activations overflow", 1e-9, 1e30},
  };
  all.insert(all.end(), own.begin(), own.end());
  all.push_back(accuracy_margin());
  return all;
}

void check(const Config& config) {
  if (config.integer("k_from") > config.integer("k_to"))
    throw std::invalid_argument(
        fmt::format("k_from is {}, more than k_to, which is {}", config.integer("k_from"), config.integer("k_to")));
  for (const FormatChoice& choice : config.formats("formats"))
    if (!choice.format.has_zero || choice.format.exponent_bits > 8)
      throw std::invalid_argument("formats: " + choice.name +
                                  "; accepted: formats with a zero and at most 8 exponent bits");
}

/// One network under one policy, its reference first.
void report_runs(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, std::uint64_t first_seed,
                 ScalingTables& tables, Tables& shared, bool with_reference) {
  Spread reference;
  for (const ScaledRun& run : runs)
    if (run.scaling == Scaling::reference) reference.add(run.record);
  std::map<std::pair<int, bool>, Spread> fixed;
  for (const ScaledRun& run : runs)
    if (run.scaling == Scaling::fixed) fixed[{run.k, !run.skip}].add(run.record);
  for (const ScaledRun& run : runs) {
    const bool first = run.job.settings.seed == first_seed;
    if (with_reference || run.scaling != Scaling::reference) shared.add(run.job, run.record, first);
    if (run.scaling == Scaling::fixed && first) tables.add_static(run, fixed.at({run.k, !run.skip}), reference.mean());
    tables.add(run, gradients, first);
  }
}

void train_all(std::deque<ScaledRun>& runs, bool collapsing, const Data& data, const Config& config, Run& run,
               double from, double to) {
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
  Config without = config;
  without.set("save_gradients=");  // a folder holds one training
  for (const std::string& network : config.choices("networks"))
    if (data.missing(network).empty())
      gradients.push_back(collect_gradients(gradients.empty() ? config : without, network, data));
  run.progress(0.05);
  report_gradients(config, gradients, data, run.report);
  run.progress(0.1);

  std::deque<ScaledRun> runs;
  for (const NetworkGradients& n : gradients)
    for (const training::Policy& policy : policies)
      plan(config, policy, n, data, *data.examples(config, n.network), runs);
  train_all(runs, false, data, without, run, 0.1, 0.9);
  // What breaks on purpose has no checkpoints, after which it would not be broken any more.
  without.set("checkpoints=");
  train_all(runs, true, data, without, run, 0.9, 1);

  ScalingTables tables(run.report);
  Tables shared(run.report, "variant", "Policy and loss scaling.");
  claim_scaler(run.report);
  for (const std::string& network : config.choices("networks")) {
    const auto at = std::find_if(gradients.begin(), gradients.end(),
                                 [&](const NetworkGradients& n) { return n.network == network; });
    for (const training::Policy& policy : policies) {
      if (at == gradients.end()) {
        skip_loss_scaling(network, policy.name, data.missing(network), run.report);
        continue;
      }
      std::vector<ScaledRun> own;
      for (const ScaledRun& r : runs)
        if (r.job.settings.network == network && (r.scaling == Scaling::reference || r.base == policy.name))
          own.push_back(r);
      report_runs(own, *at, static_cast<std::uint64_t>(config.integer("seed")), tables, shared,
                  &policy == &policies.front());
      claim_loss_scaling(own, *at, config.real("margin"), run.report);
    }
  }
}

}  // namespace

namespace {

/// What is lost without a scale, and the first scale that is too large.
std::string loss_scaling_finding(const ReportTables& tables) {
  const auto scales = tables.rows("static", {{"skip", "yes"}});
  const auto over = std::find_if(scales.begin(), scales.end(),
                                 [](const TableRow& row) { return row.number("overflowed") > 0; });
  const auto lost = tables.rows("static", {{"skip", "yes"}, {"k", 0}});
  if (over == scales.end() || lost.empty()) return {};
  return fmt::format("Unscaled, fp16 loses {} of gradients; 2^{} overflows and costs {} points.",
                     percent(lost.front().number("lost")), over->whole("k"), in_words(-100 * over->number("to_fp32")));
}

}  // namespace

Experiment loss_scaling_experiment() {
  return {"loss_scaling",
          "Loss scaling on real gradients",
          "Which loss scales work, and how does a dynamic one collapse?",
          parameters,
          run_loss_scaling,
          loss_scaling_finding,
          {"static",
           {"k", "skip", "accuracy", "to_fp32", "lost", "overflowed", "skipped", "failed"},
           {"network", "policy"}}};
}

}  // namespace halfulp
