#include <halfulp/experiments/loss_scaling/loss_scaling.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace halfulp::trainings {
namespace {

std::vector<Column> with_run(std::vector<Column> columns) {
  std::vector<Column> all{{"network", "", "Network."}, {"policy", "", "Precision policy."}};
  all.insert(all.end(), columns.begin(), columns.end());
  return all;
}

}  // namespace

ScalingTables::ScalingTables(Report& report)
    : static_(report.table(
          "static", "Static loss scales",
          with_run(
              {{"k", "binade", "The scale is 2^k."},
               {"skip", "", "Whether steps with Inf or NaN in gradients are left out: yes or no."},
               {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
               {"to_fp32", "1", "Mean accuracy minus that of fp32."},
               {"test_loss", "nat", "Mean test loss of those that did not fail."},
               {"lost", "1",
                "Share of gradients, of weights and activations, that rounding made zero, in counted steps of the "
                "first seed."},
               {"overflowed", "1", "Share that overflowed."},
               {"skipped", "step", "Steps left out, over all seeds."},
               {"failed", "run", "Trainings that ended with Inf or NaN in a parameter."},
               {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."}}))),
      ends_(report.table(
          "ends",
          "FP16 at the ends of the range that recovers every gradient, for as many steps as gradients were collected "
          "from",
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
                    {"k_to", "binade",
                     "The largest exponent under which no gradient collected in FP32 overflows in fp16."}}))),
      course_(report.table(
          "scale_course", "The course of dynamic scales, the first 200 changes of each training's first seed",
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
                     "The first step taken although unscaling had made its gradients NaN: 0 times 1/0; null if there "
                     "was none."},
                    {"failed_at", "step", "The step that made a parameter Inf or NaN; null if none did."},
                    {"final_scale", "1", "Scale at the end."}}))) {}

void ScalingTables::add_static(const ScaledRun& run, const Spread& spread, double fp32) {
  const GradientShares shares = shares_of(run.record);
  static_.row({run.job.settings.network, run.base, run.k, run.skip ? "yes" : "no", number(spread.mean()),
               number(spread.mean() - fp32), number(spread.mean_loss()), number(shares.lost), number(shares.overflowed),
               spread.skipped, spread.failed(), where(run.record.first_infinite)});
}

/// A step as tables count it, from 1; null if there was none.
static Json counted(const std::optional<std::uint64_t>& step) { return step ? Json(*step + 1) : Json(); }

void ScalingTables::add_course(const ScaledRun& run) {
  const std::string& network = run.job.settings.network;
  course_.row({network, run.base, run.job.variant, 0, "began", number(FloatFormat::power_of_two(run.k))});
  std::size_t rows = 0;
  for (const training::ScalerEvent& event : run.record.events)
    if (event.before != event.after && ++rows <= 200)
      course_.row({network, run.base, run.job.variant, event.update + 1, name_of(event.kind), number(event.after)});
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
    dynamic_.row({network, run.base, run.k, run.interval, run.job.settings.seed, number(record.final.accuracy), grew,
                  record.skipped(), bad < course.size() ? Json(bad + 1) : Json(),
                  number(std::min(first, *std::min_element(course.begin(), course.end()))),
                  number(std::max(first, *std::max_element(course.begin(), course.end()))), number(settled),
                  settled > 0 ? Json(std::ilogb(settled)) : Json(),
                  gradients.all.non_zero() ? Json(gradients.all.range_by_limits(fp16).to) : Json()});
    if (first_seed) add_course(run);
  } else if (run.scaling == Scaling::too_fast || run.scaling == Scaling::poisoned) {
    const Descent d = descent_of(record);
    std::uint64_t after = 0;
    for (const training::ScalerEvent& event : record.events)
      after += d.zero_at && event.kind == training::ScalerEvent::Kind::skipped &&
               static_cast<std::uint64_t>(event.update) > *d.zero_at;
    collapse_.row({network, run.base,
                   run.poisoned ? fmt::format("a NaN in one gradient in each of the first {} steps", run.poisoned)
                                : fmt::format("learning rate {}", run.job.settings.optimizer.lr),
                   where(record.first_infinite), where(record.first_nan), or_null(d.to_one), or_null(d.to_subnormal),
                   or_null(d.to_zero), counted(d.zero_at), d.cause, after, counted(d.unnoticed),
                   counted(record.diverged), number(record.curve.back().scale)});
    if (first_seed) add_course(run);
  }
}

namespace {

const Citation grad_scaler{
    publications::grad_scaler,
    "PyTorch documentation, torch.amp.GradScaler: init_scale 65536, growth_factor 2, backoff_factor 0.5, "
    "growth_interval 2000"};
constexpr const char* halving =
    "derived: a power of two halves exactly in fp32 down to 2^-149, whose half is a tie and goes to 0";
constexpr const char* zero_times_infinity =
    "derived: gradients are 0, 1 / scale is Infinity, and 0 * Infinity is NaN (IEEE 754-2019, section 7.2)";
const Citation scale_8{
    publications::fp16_gradients,
    "Micikevicius et al. 2018, Mixed Precision Training, section 3.2: a factor of 8 was enough for the detector"};
const Citation as_large{
    publications::fp16_gradients,
    "Micikevicius et al. 2018, Mixed Precision Training, section 3.2: the largest gradient times the scale stays below "
    "65504"};
const Citation accuracy{
    publications::mixed_precision,
    "Micikevicius et al. 2018, Mixed Precision Training, section 4; PyTorch documentation, torch.amp"};

/// What a network's runs claim, in the order of the report.
struct Statements {
  std::string prefix, eight, dynamic, top, beyond, settles, collapse, unnoticed, diverging;
  Statements(const std::string& network, const std::string& policy) : prefix(kebab_case(network + "-" + policy)) {
    const std::string of = network + ", " + policy +
                           ": ";  // after a word of its own: messages are told apart by how they begin
    eight = "Scale 8, " + of + "a static loss scale of 8 brings back the accuracy that is lost without one.";
    dynamic = "Defaults, " + of + "GradScaler as it is gives the accuracy of FP32.";
    top = "Top, " + of +
          "the largest scale under which no gradient of the FP32 training overflows skips no step of an FP16 one.";
    beyond = "Beyond, " + of + "four times that scale skips steps.";
    settles = "Settled, " + of +
              "dynamic scales that grew or fell to where gradients overflow stay within 2 binades of that scale.";
    collapse = "NaN, " + of + "in a gradient of every step it halves the scale of 2^16 to zero in 166 updates.";
    unnoticed = "Zero, " + of +
                "the first step without that NaN after the collapse is taken and makes the parameters NaN.";
    diverging = "Broken, " + of +
                "a learning rate that makes activations overflow halves the scale of 2^16 to zero in 166 updates.";
  }
};

template <class Which>
Spread spread_of(const std::vector<ScaledRun>& runs, Which&& which) {
  Spread spread;
  for (const ScaledRun& run : runs)
    if (which(run)) spread.add(run.record);
  return spread;
}

/// `largest`: the k of the largest scale without overflow, null where there is none.
void claim_ends(const Statements& s, const std::vector<ScaledRun>& runs, const int* largest, Report& report) {
  const auto at = [&](int above) {
    return std::find_if(runs.begin(), runs.end(), [&](const ScaledRun& r) {
      return largest && r.scaling == Scaling::end && r.k == *largest + above;
    });
  };
  const auto basis = [&](const char* end) {
    return may_differ(fmt::format(
        "gradients were looked at in some steps alone, and those of FP16 differ or end early; the table `ends` has "
        "{}",
        end));
  };
  const auto top = at(0), beyond = at(2);
  const char* const none = "all gradients are zero, or out of the range of scales";
  report.claim(
      {s.prefix + "-top", s.top, as_large},
      top == runs.end() ? skipped(none) : at_most(0, static_cast<double>(top->record.skipped()), basis("k_to")));
  report.claim({s.prefix + "-beyond", s.beyond, as_large},
               beyond == runs.end() ? skipped(none)
                                    : at_least(1, static_cast<double>(beyond->record.skipped()), basis("k_to + 2")));
}

}  // namespace

void claim_scaler(Report& report) {
  using training::LossScaler;
  const training::LossScalerSettings settings;
  report.claim({"grad-scaler-defaults",
                "Defaults of the loss scaler: 65536, growth by 2, backoff by 0.5, every 2000 updates.", grad_scaler},
               exactly(Json::array({65536.0, 2.0, 0.5, 2000}),
                       Json::array({settings.initial_scale, settings.growth_factor, settings.backoff_factor,
                                    settings.growth_interval}),
                       "published"));
  LossScaler scaler;
  float gradient = 0;
  const std::array<std::span<float>, 1> gradients{std::span<float>(&gradient, 1)};
  bool taken = false;
  const auto update = [&](float value) {
    gradient = value;
    scaler.scale(1);
    taken = scaler.step(0, gradients, [] {});
    scaler.update();
    return scaler.current();
  };
  int to_one = 0, to_subnormal = 0, to_zero = 0;
  for (int n = 1; n <= 300 && to_zero == 0; ++n) {
    const double scale = update(std::numeric_limits<float>::infinity());
    if (scale <= 1 && !to_one) to_one = n;
    if (scale < 0x1p-126 && !to_subnormal) to_subnormal = n;
    if (scale == 0) to_zero = n;
  }
  report.claim({"sixteen-overflows",
                "After 16 overflows in a row nothing is left of GradScaler's scale: it is 1.",
                {publications::grad_scaler, halving}},
               exactly(16, to_one, "oracle"));
  report.claim({"scale-reaches-zero",
                "Overflow without end: the scale is subnormal after 143 updates and zero after 166.", halving},
               exactly(Json::array({16 + 126 + 1, updates_to_zero}), Json::array({to_subnormal, to_zero}), "oracle"));
  scaler.take_events();
  update(0);  // what a loss times zero gives backward
  const auto events = scaler.take_events();
  const bool unnoticed = std::any_of(events.begin(), events.end(), [](const training::ScalerEvent& e) {
    return e.kind == training::ScalerEvent::Kind::unnoticed;
  });
  report.claim({"zero-scale-unnoticed",
                "From a scale of zero nothing leads back: gradients become NaN, the step is taken, the scale stays.",
                zero_times_infinity},
               exactly(Json::array({true, true, true, 0.0}),
                       Json::array({taken, std::isnan(gradient), unnoticed, scaler.current()}), "oracle"));
}

void claim_loss_scaling(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, double margin,
                        Report& report) {
  const auto first = std::find_if(runs.begin(), runs.end(),
                                  [](const ScaledRun& r) { return r.scaling != Scaling::reference; });
  const std::string policy = first->base;
  const Statements s(gradients.network, policy);
  const Spread fp32 = spread_of(runs, [](const ScaledRun& r) { return r.scaling == Scaling::reference; });
  const auto fixed_at = [&](int k) {
    return spread_of(runs, [k](const ScaledRun& r) { return r.scaling == Scaling::fixed && r.k == k && r.skip; });
  };
  const Spread eight = fixed_at(3), none = fixed_at(0);
  const Spread dynamic = spread_of(
      runs, [](const ScaledRun& r) { return r.scaling == Scaling::dynamic && r.interval == 2000 && r.k == 16; });
  report.claim({s.prefix + "-scale-8", s.eight, scale_8},
               eight.count() == 0  ? skipped("scales does not contain 3")
               : none.count() == 0 ? skipped("scales does not contain 0, which says whether a scale is wanted")
                                   : judge_repair(eight, none, fp32, margin, "fp32"));
  report.claim({s.prefix + "-dynamic-as-fp32", s.dynamic, accuracy}, judge_no_worse(dynamic, fp32, margin, "fp32"));

  std::optional<double> worst;
  const bool some = gradients.all.non_zero() != 0;
  const int largest = some ? gradients.all.range_by_limits(fp16).to : 0;
  claim_ends(s, runs, some ? &largest : nullptr, report);
  for (const ScaledRun& run : runs) {
    if (run.scaling != Scaling::dynamic || !run.record.skipped() || run.record.diverged || !some) continue;
    const double settled = settled_scale(run),
                 distance = settled > 0 ? std::fabs(std::log2(settled) - largest) : HUGE_VAL;
    worst = std::max(worst.value_or(0), distance);
  }
  report.claim({s.prefix + "-settles", s.settles, as_large},
               worst ? at_most(2, *worst,
                               may_differ("gradients changed after the first steps, or overflow elsewhere in FP16; the "
                                          "tables `dynamic` and `ends` say "
                                          "more"))
                     : skipped("no dynamic scale came up to where gradients overflow; accepted: more steps, a shorter "
                               "growth_interval"));
  for (const ScaledRun& run : runs) {
    const Descent d = descent_of(run.record);
    const Json zero = or_null(d.to_zero);
    if (run.scaling == Scaling::poisoned) {
      report.claim({s.prefix + "-collapse", s.collapse, halving}, exactly(updates_to_zero, zero, "oracle"));
      const double loss = run.record.curve.front().loss;
      report.claim({s.prefix + "-unnoticed", s.unnoticed, zero_times_infinity},
                   !std::isfinite(loss)
                       ? skipped("the network has Inf or NaN of its own: its steps are skipped at a scale of zero too")
                       : exactly(Json::array({run.poisoned, run.poisoned}),
                                 Json::array({or_null(d.unnoticed), or_null(run.record.diverged)}), "oracle"));
    } else if (run.scaling == Scaling::too_fast) {
      report.claim(
          {s.prefix + "-diverging", s.diverging, halving},
          d.to_zero ? exactly(updates_to_zero, zero, "oracle")
                    : skipped(fmt::format(
                          "a learning rate of {} did not break it for good; the table `collapse` says how far it came",
                          run.job.settings.optimizer.lr)));
    }
  }
}

void skip_loss_scaling(const std::string& network, const std::string& policy, const std::string& why, Report& report) {
  const Statements s(network, policy);
  report.claim({s.prefix + "-scale-8", s.eight, scale_8}, skipped(why));
  report.claim({s.prefix + "-dynamic-as-fp32", s.dynamic, accuracy}, skipped(why));
  report.claim({s.prefix + "-top", s.top, as_large}, skipped(why));
  report.claim({s.prefix + "-beyond", s.beyond, as_large}, skipped(why));
  report.claim({s.prefix + "-settles", s.settles, as_large}, skipped(why));
  report.claim({s.prefix + "-collapse", s.collapse, halving}, skipped(why));
  report.claim({s.prefix + "-unnoticed", s.unnoticed, zero_times_infinity}, skipped(why));
  report.claim({s.prefix + "-diverging", s.diverging, halving}, skipped(why));
}

}  // namespace halfulp::trainings
