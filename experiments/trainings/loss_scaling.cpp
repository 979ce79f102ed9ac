// loss_scaling: which loss scales recover the gradients of a real training, where a dynamic scale settles, and how it collapses.
#include <halfulp/experiments/trainings/loss_scaling_claims.hpp>
#include <halfulp/experiments/trainings/loss_scaling_tables.hpp>
#include <halfulp/experiments/trainings/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
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
      {"scales", Type::integers, "0,3,8,16,20,24", "static loss scales to train with: 2^k", -126, 126},
      {"initial", Type::integers, "0,16,32", "first scales of dynamic loss scaling: 2^k", -126, 126},
      {"growth_interval", Type::integer, "8", "updates without overflow before such a scale grows", 1, 1e9},
      {"collapse_lr", Type::real, "1000", "a learning rate that makes activations overflow", 1e-9, 1e30},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

void check(const Config& config) {
  if (config.integer("k_from") > config.integer("k_to"))
    throw std::invalid_argument(fmt::format("k_from is {}, more than k_to, which is {}", config.integer("k_from"), config.integer("k_to")));
  for (const FormatChoice& choice : config.formats("formats"))
    if (!choice.format.has_zero || choice.format.exponent_bits > 8)
      throw std::invalid_argument("formats: " + choice.name + "; accepted: formats with a zero and at most 8 exponent bits");
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
void report_runs(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, std::uint64_t first_seed, ScalingTables& tables,
                 Tables& shared, bool with_reference) {
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
  Config without = config;
  without.set("save_gradients=");  // a folder holds one training
  for (const std::string& network : config.choices("networks"))
    if (data.missing(network).empty()) gradients.push_back(collect_gradients(gradients.empty() ? config : without, network, data));
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
  return {"loss_scaling",
          "Loss scaling on real gradients",
          "Which loss scales recover a real training's gradients, where does a dynamic scale settle, and how does it collapse?",
          parameters,
          run_loss_scaling,
          {"static", {"k", "skip", "accuracy", "to_fp32", "lost", "overflowed", "skipped", "failed"}, {"network", "policy"}}};
}

}  // namespace halfulp
