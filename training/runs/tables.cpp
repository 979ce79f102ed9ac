#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::trainings {

const std::vector<training::Microscope::UpdateRow>* last_updates(const training::TrainingRecord& record) {
  const auto last = std::find_if(record.curve.rbegin(), record.curve.rend(),
                                 [](const training::CurvePoint& point) { return !point.updates.empty(); });
  return last == record.curve.rend() ? nullptr : &last->updates;
}

Evidence evidence_of(const training::TrainingRecord& record) {
  std::uint64_t updates = 0, swamped = 0, elements = 0, zero = 0, second = 0, gradients = 0, underflowed = 0,
                operands = 0, operands_lost = 0;
  Evidence e;
  for (const training::CurvePoint& point : record.curve) {
    for (const auto& u : point.updates) {
      updates += u.sum.with_update, swamped += u.sum.swamped, elements += u.sum.elements, zero += u.sum.zero_gradients;
      second += u.sum.second_underflowed, e.zero_denominators += u.sum.zero_denominators;
    }
    for (const auto& t : point.tensors) {
      if (t.operand) operands += t.elements, operands_lost += t.underflowed;
      if (t.operand ||
          (t.role != training::Role::gradient_of_activation && t.role != training::Role::gradient_of_weight))
        continue;
      gradients += t.elements, underflowed += t.underflowed;
    }
  }
  if (const auto* const updates = last_updates(record))
    for (const auto& last : *updates)
      for (const training::StartNorm& first : record.start)
        if (first.parameter == last.name && first.norm > 0)
          e.growth = std::max(e.growth, last.sum.weight_norm / first.norm);
  const auto share = [](std::uint64_t part, std::uint64_t whole) {
    return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  e.swamped = share(swamped, updates), e.gradients_underflowed = share(underflowed, gradients),
  e.operands_underflowed = share(operands_lost, operands);
  e.gradients_zero = share(zero, elements), e.second_underflowed = share(second, elements);
  return e;
}

Diagnosis diagnose(const training::TrainingRecord& record, bool worse, bool narrow) {
  const Evidence e = evidence_of(record);
  const auto place = [](const std::optional<training::FirstNonFinite>& first) {
    return fmt::format("{} ({}) at step {}", first->name, name_of(first->role), first->step + 1);
  };
  if (record.diverged) {
    std::string why = fmt::format("parameters are Inf or NaN after step {}", *record.diverged + 1);
    if (record.first_infinite) why += "; first Inf: " + place(record.first_infinite);
    if (record.first_nan) why += "; first NaN: " + place(record.first_nan);
    if (record.first_infinite || record.first_nan)
      return {why, "loss scaling that skips such steps, or a format with more range"};
    // No tensor of a pass had one: the update has made it.
    if (e.zero_denominators)
      return {why + fmt::format("; the update divides {} numbers by zero: second moment and eps both round to zero",
                                e.zero_denominators),
              "optimizer in FP32 (O2), or a larger eps"};
    return {why + "; the update made it", "optimizer in FP32 (O2)"};
  }
  if (!worse) return {};
  if (e.zero_denominators)
    return {fmt::format("{} updates divided by zero", e.zero_denominators), "eps and second moments in FP32"};
  if (e.growth > 100 || !(record.final.loss < 100)) {
    const std::string grown = fmt::format("weights have grown {:.2g} times", e.growth);
    if (e.second_underflowed > 0.05)
      return {grown + fmt::format(": {:.0f} % of Adam's second moments are zero where gradients are not, and updates "
                                  "are divided by eps",
                                  100 * e.second_underflowed),
              "FP32 optimizer states and constants"};
    return {grown, "a smaller learning rate, or FP32 optimizer states"};
  }
  if (e.swamped > 0.2)
    return {fmt::format("{:.0f} % of the updates leave their weight as it was", 100 * e.swamped),
            "FP32 master weights, stochastic rounding or Kahan summation"};
  if (e.second_underflowed > 0.05)
    return {fmt::format("{:.0f} % of Adam's second moments underflow", 100 * e.second_underflowed),
            "FP32 optimizer states"};
  if (e.gradients_underflowed > 0.05)
    return {fmt::format("{:.0f} % of the gradients underflow", 100 * e.gradients_underflowed), "loss scaling"};
  if (e.operands_underflowed > 0.05)
    return {fmt::format("{:.0f} % of what enters products is rounded to zero", 100 * e.operands_underflowed),
            "smaller blocks, scales with more digits, or more bits in the sensitive layers"};
  if (record.skipped() * 10 > record.curve.back().step)
    return {fmt::format("{} of {} steps were skipped", record.skipped(), record.curve.back().step),
            "a smaller first scale"};
  if (!narrow) return {"nothing is narrower than FP32: the settings alone do it", "other settings"};
  return {"no single loss of the microscope's: rounding noise in products and activations",
          "more bits in the sensitive layers"};
}

Json where(const std::optional<training::FirstNonFinite>& first) {
  if (!first) return {};
  return fmt::format("step {}: {}, {}", first->step + 1, first->name, name_of(first->role));
}

std::vector<Column> tensor_columns(const std::string& step) {
  return {
      {"step", "step", step},
      {"tensor", "", "Layer or parameter."},
      {"operator", "", "What the layer is."},
      {"role", "", "Which of its tensors; operands are those on their way into a product."},
      {"elements", "value", "Numbers that were rounded, step by step; operands once for each product that they enter."},
      {"zero", "1", "Share that is zero afterwards."},
      {"underflowed", "1", "Share that rounding made zero."},
      {"subnormal", "1", "Share that is subnormal afterwards; of operands in blocks not counted."},
      {"overflowed", "1", "Share that overflowed or was clipped to the largest value."},
      {"nan", "value", "NaNs."}};
}

std::vector<Json> tensor_cells(std::uint64_t step, const training::Microscope::Row& t) {
  return {step,
          t.name,
          name_of(t.kind),
          std::string(name_of(t.role)) + (t.operand ? ", operand" : ""),
          t.elements,
          share(t.zeros, t.elements),
          share(t.underflowed, t.elements),
          share(t.subnormal, t.elements),
          share(t.overflowed, t.elements),
          t.nan};
}

namespace {

std::vector<Column> with_run(const Column& variant, std::vector<Column> columns) {
  std::vector<Column> all{variant, {"network", "", "Network."}, {"seed", "1", "Seed of the training."}};
  all.insert(all.end(), columns.begin(), columns.end());
  return all;
}

}  // namespace

Tables::Tables(Report& report, const std::string& variant, const std::string& description)
    : runs_(report.table(
          "runs", "Every training and how it ended",
          with_run(
              {variant, "", description},
              {{"parameters", "value", "Numbers that the optimizer changes."},
               {"steps", "step", "Steps of the training, as asked for."},
               {"batch", "example", "Images or windows of text a step."},
               {"train", "example", "Images that were learned from; characters that windows were drawn from."},
               {"test", "example", "Images, or windows of text, of a test."},
               {"learning_rate", "1", "Learning rate."},
               {"train_loss", "nat", "Mean loss of the last interval: of the last steps / intervals steps, or fewer."},
               {"test_loss", "nat", "Mean loss on what was not learned from; NaN if the training failed."},
               {"test_accuracy", "1",
                "Share of test images, or characters, that are told right; 0 if the training failed."},
               {"skipped", "step", "Steps that the loss scaler left out."},
               {"scale", "1", "Loss scale at the end."},
               {"loss_spikes", "step", "Steps whose loss was far above what was usual (table `spikes`)."},
               {"announced", "step",
                "Those of them with a spike of the gradients' norm in the ten steps before, or in the same."},
               {"first_infinite", "", "The first tensor with an Inf: step, layer, role; null if there was none."},
               {"first_nan", "", "The first tensor with a NaN."},
               {"failed_at", "step",
                "The step that made a parameter Inf or NaN, where the training ended; null if none did."}}))),
      curves_(report.table(
          "curves", "The course of every training",
          with_run({variant, "", description},
                   {{"step", "step", "Steps done at the interval's end."},
                    {"train_loss", "nat", "Mean loss of the interval's steps."},
                    {"gradient_norm", "1", "Mean norm of all gradients, unscaled, of steps where it is finite."},
                    {"largest_norm", "1", "The largest of these."},
                    {"scale", "1", "Loss scale at the end of the interval."},
                    {"skipped", "step", "Steps left out for Inf or NaN."},
                    {"abnormal", "step", "Steps left out for an abnormal norm."},
                    {"clipped", "step", "Steps whose gradients were clipped."},
                    {"test_loss", "nat", "Loss of a test; null if there was none here."},
                    {"test_accuracy", "1", "Accuracy of that test."}}))),
      tensors_(report.table(
          "tensors",
          "What rounding did to each tensor in the first step of all and the last one of each interval, of a variant's "
          "first training",
          with_run({variant, "", description}, tensor_columns("Steps done at the interval's end.")))),
      updates_(report.table(
          "updates",
          "What became of each parameter's updates in the first step of all and the last one of each interval, of a "
          "variant's first training",
          with_run(
              {variant, "", description},
              {{"step", "step", "Steps done at the interval's end."},
               {"parameter", "", "Parameter."},
               {"elements", "value", "Its numbers, step by step."},
               {"with_update", "value", "Those with an update other than zero."},
               {"swamped", "1", "Share of these that left the weight as it was."},
               {"zero_gradients", "1", "Share of gradients that are zero."},
               {"second_underflowed", "1", "Share of Adam's second moments that are zero though the gradient is not."},
               {"zero_denominators", "value",
                "Numbers whose update is divided by zero: second moment and eps both zero."},
               {"weight_norm", "1", "Norm of the weights."},
               {"gradient_to_weight", "1", "Norm of the gradient relative to it."},
               {"update_to_weight", "1", "Norm of the update relative to it."}}))),
      events_(report.table(
          "scaler_events", "What the loss scaler did, the first 200 events of each training",
          with_run({variant, "", description}, {{"update", "update", "Updates before it."},
                                                {"event", "", "What it was: grew, backed-off, skipped, collapsed, ..."},
                                                {"before", "1", "Scale before."},
                                                {"after", "1", "Scale after."},
                                                {"description", "", "In words."}}))),
      spikes_(report.table("spikes",
                           "Losses and gradient norms far above what was usual, the first 50 of each training",
                           with_run({variant, "", description}, {{"step", "step", "Step."},
                                                                 {"of", "", "What it is of: loss or gradient-norm."},
                                                                 {"value", "1", "Its value."},
                                                                 {"usual", "1", "Running mean before."}}))) {}

void Tables::add(const Job& job, const training::TrainingRecord& record, bool closely) {
  const training::TrainerSettings& s = job.settings;
  const auto row = [&](Table& table, std::vector<Json> cells) {
    std::vector<Json> all{job.variant, s.network, s.seed};
    all.insert(all.end(), cells.begin(), cells.end());
    table.row(std::move(all));
  };
  const training::CurvePoint& last = record.curve.back();
  row(runs_,
      {job.parameters, s.steps, job.batch, job.train, job.test, number(s.optimizer.lr), number(last.loss),
       number(record.final.loss), number(record.final.accuracy), record.skipped(), number(last.scale),
       std::count_if(record.spikes.begin(), record.spikes.end(), [](const training::Spike& s) { return s.of_loss; }),
       training::announced(record.spikes, 10), where(record.first_infinite), where(record.first_nan),
       record.diverged ? Json(*record.diverged + 1) : Json()});
  for (const training::CurvePoint& p : record.curve) {
    row(curves_,
        {p.step, number(p.loss), number(p.gradient_norm), number(p.largest_norm), number(p.scale), p.skipped,
         p.abnormal, p.clipped, p.test ? number(p.test->loss) : Json(), p.test ? number(p.test->accuracy) : Json()});
    if (!closely) continue;
    for (const auto& t : p.tensors) row(tensors_, tensor_cells(p.step, t));
    for (const auto& u : p.updates)
      row(updates_, {p.step, u.name, u.sum.elements, u.sum.with_update, share(u.sum.swamped, u.sum.with_update),
                     share(u.sum.zero_gradients, u.sum.elements), share(u.sum.second_underflowed, u.sum.elements),
                     u.sum.zero_denominators, number(u.sum.weight_norm),
                     number(u.sum.gradient_norm / u.sum.weight_norm), number(u.sum.update_norm / u.sum.weight_norm)});
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(200, record.events.size()); ++i) {
    const training::ScalerEvent& e = record.events[i];
    row(events_, {e.update, name_of(e.kind), number(e.before), number(e.after), description(e)});
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(50, record.spikes.size()); ++i) {
    const training::Spike& spike = record.spikes[i];
    row(spikes_, {spike.step + 1, spike.of_loss ? "loss" : "gradient-norm", number(spike.value), number(spike.usual)});
  }
}

}  // namespace halfulp::trainings
