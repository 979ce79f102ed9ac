// grad_scaler: one scaler for several losses and optimizers, clipping, accumulation and checkpoints, as documented and
// in the ways that are wrong.
#include <halfulp/experiments/grad_scaler/grad_scaler.hpp>
#include <halfulp/report/config.hpp>

namespace halfulp {
namespace grad_scaler {
namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  return {
      {"scales", Type::integers, "0,4,8,12,16", "static loss scales 2^k to clip under", 0, 19},
      {"max_norm", Type::real, "0.0625", "norm to which gradients are clipped; they begin at 0.25", 1e-6, 1e6},
      {"micro_batches", Type::integers, "1,2,4,8,16", "micro-batches of a step, of 16 examples together", 1, 16},
      {"steps", Type::integer, "20", "steps of a training, and of each half of one with a checkpoint", 1, 900},
      {"learning_rate", Type::real, "0.125", "learning rate of these", 1e-6, 1},
      {"largest", Type::real, "48", "the largest gradient of trainings with a checkpoint, at their beginning", 1e-3,
       4096},
  };
}

void run_grad_scaler(const Config& config, Run& run) {
  several_optimizers(run.report);
  clipping(config, run.report);
  accumulation(config, run.report);
  resuming(config, run.report);
}

}  // namespace
}  // namespace grad_scaler

namespace {

/// Clipping at the wrong time and at the right one.
std::string grad_scaler_finding(const ReportTables& tables) {
  const auto before = tables.rows("clipping", {{"when", "before"}}),
             after = tables.rows("clipping", {{"when", "after"}});
  const TableRow *const wrong = smallest(before, "to_fp32"), *const right = smallest(after, "to_fp32");
  if (!wrong || !right) return {};
  return fmt::format("Clipping before unscale_ shrinks a step to {}; clipping after it leaves {}.",
                     percent(wrong->number("to_fp32")), percent(right->number("to_fp32")));
}

}  // namespace

Experiment grad_scaler_experiment() {
  return {"grad_scaler",
          "How a loss scaler is used",
          "What goes wrong when a GradScaler is used wrongly?",
          grad_scaler::parameters,
          grad_scaler::run_grad_scaler,
          grad_scaler_finding,
          {"accumulation", {"way", "micro_batches", "part", "taken", "refused"}, {}, {"way"}}};
}

}  // namespace halfulp
