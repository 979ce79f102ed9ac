#include <halfulp/experiments/trainings/loss_scaling_tables.hpp>

#include <halfulp/experiments/trainings/tables.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp::trainings {
namespace {

std::vector<Column> with_run(std::vector<Column> columns) {
  std::vector<Column> all{{"network", "", "Network."}, {"policy", "", "Precision policy."}};
  all.insert(all.end(), columns.begin(), columns.end());
  return all;
}

Json or_null(const std::optional<std::uint64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

ScalingTables::ScalingTables(Report& report)
    : static_(report.table(
          "static", "Static loss scales",
          with_run({{"k", "binade", "The scale is 2^k."},
                    {"skip", "", "Whether steps with Inf or NaN in gradients are left out: yes or no."},
                    {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
                    {"to_fp32", "1", "Mean accuracy minus that of fp32."},
                    {"test_loss", "nat", "Mean test loss of those that did not fail."},
                    {"lost", "1",
                     "Share of gradients, of weights and activations, that rounding made zero, in counted steps of the first seed."},
                    {"overflowed", "1", "Share that overflowed."},
                    {"skipped", "step", "Steps left out, over all seeds."},
                    {"failed", "run", "Trainings that ended with parameters that are no numbers."},
                    {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."}}))),
      ends_(report.table("ends",
                         "FP16 at the ends of the range that recovers every gradient, for as many steps as gradients were collected from",
                         with_run({{"k", "binade", "The scale is 2^k, and static."},
                                   {"end", "", "Which end of fp16's range (the table `ranges`); unscaled is a scale of 1."},
                                   {"steps", "step", "Steps."},
                                   {"skipped", "step", "Steps left out for Inf or NaN."},
                                   {"lost", "1", "Share of gradients that rounding made zero, in counted steps."},
                                   {"predicted_lost", "1", "The same of the gradients collected in FP32."},
                                   {"overflowed", "1", "Share of gradients that overflowed."},
                                   {"predicted_overflowed", "1", "The same of the gradients collected in FP32."}}))),
      dynamic_(report.table(
          "dynamic", "Dynamic loss scales",
          with_run({{"k_initial", "binade", "The first scale is 2^k_initial."},
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
      course_(report.table("scale_course", "The course of dynamic scales, the first 200 changes of each training's first seed",
                           with_run({{"variant", "", "Loss scaling and what was done to the training, as in the table `runs`."},
                                     {"step", "step", "The step after which it changed; 0 before the first."},
                                     {"event", "", "What happened: began, grew, backed-off, collapsed."},
                                     {"scale", "1", "The scale from there on."}}))),
      collapse_(report.table(
          "collapse", "Gradients that no scale makes finite: the scale falls to zero",
          with_run({{"cause", "", "What was done to the training."},
                    {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."},
                    {"first_nan", "", "The first tensor with a NaN, among what the network computes."},
                    {"to_one", "step", "Updates that lowered the scale until it was at most 1; null if it never was."},
                    {"to_subnormal", "step", "Until it was subnormal in fp32."},
                    {"to_zero", "step", "Until it was zero."},
                    {"zero_at", "step", "The step that made it zero."},
                    {"streak", "", "The scaler's account of the cause; empty if the scale did not become zero."},
                    {"skipped_after", "step", "Steps left out after that."},
                    {"unnoticed", "step",
                     "The first step taken although unscaling had made its gradients NaN: 0 times 1/0; null if there was none."},
                    {"failed_at", "step", "The step that made a parameter Inf or NaN; null if none did."},
                    {"final_scale", "1", "Scale at the end."}}))) {}

void ScalingTables::add_static(const ScaledRun& run, const Spread& spread, double fp32) {
  const GradientShares shares = shares_of(run.record);
  static_.row({run.job.settings.network, run.base, run.k, run.skip ? "yes" : "no", number(spread.mean()), number(spread.mean() - fp32),
               number(spread.mean_loss()), number(shares.lost), number(shares.overflowed), spread.skipped, spread.failed,
               where(run.record.first_infinite)});
}

void ScalingTables::add_course(const ScaledRun& run) {
  const std::string& network = run.job.settings.network;
  course_.row({network, run.base, run.job.variant, 0, "began", number(FloatFormat::power_of_two(run.k))});
  std::size_t rows = 0;
  for (const training::ScalerEvent& event : run.record.events)
    if (event.before != event.after && ++rows <= 200)
      course_.row({network, run.base, run.job.variant, event.update, name_of(event.kind), number(event.after)});
}

void ScalingTables::add(const ScaledRun& run, const NetworkGradients& gradients, bool first_seed) {
  const training::TrainingRecord& record = run.record;
  const std::string& network = run.job.settings.network;
  if (run.scaling == Scaling::end) {
    const GradientShares shares = shares_of(record);
    const Recovery predicted = gradients.all.by_limits(fp16, run.k);
    ends_.row({network, run.base, run.k, run.end, record.curve.back().step, record.skipped(), number(shares.lost),
               share(predicted.lost, gradients.all.elements()), number(shares.overflowed),
               share(predicted.overflowed, gradients.all.elements())});
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
                  number(std::max(first, *std::max_element(course.begin(), course.end()))), number(settled),
                  settled > 0 ? Json(std::ilogb(settled)) : Json(),
                  gradients.all.non_zero() ? Json(gradients.all.range_by_limits(fp16).to) : Json()});
    if (first_seed) add_course(run);
  } else if (run.scaling == Scaling::too_fast || run.scaling == Scaling::poisoned) {
    const Descent d = descent_of(record);
    std::uint64_t after = 0;
    for (const training::ScalerEvent& event : record.events)
      after += d.zero_at && event.kind == training::ScalerEvent::Kind::skipped && static_cast<std::uint64_t>(event.update) > *d.zero_at;
    collapse_.row({network, run.base,
                   run.poisoned ? fmt::format("a NaN in one gradient in each of the first {} steps", run.poisoned)
                                : fmt::format("learning rate {}", run.job.settings.optimizer.lr),
                   where(record.first_infinite), where(record.first_nan), or_null(d.to_one), or_null(d.to_subnormal), or_null(d.to_zero),
                   or_null(d.zero_at), d.cause, after, or_null(d.unnoticed), or_null(record.diverged), number(record.curve.back().scale)});
    if (first_seed) add_course(run);
  }
}

}  // namespace halfulp::trainings
