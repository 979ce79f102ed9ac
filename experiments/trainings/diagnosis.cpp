#include <halfulp/experiments/trainings/diagnosis.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::trainings {

Evidence evidence_of(const training::TrainingRecord& record) {
  std::uint64_t updates = 0, swamped = 0, elements = 0, zero = 0, second = 0, gradients = 0, underflowed = 0, operands = 0, operands_lost = 0;
  Evidence e;
  for (const training::CurvePoint& point : record.curve) {
    for (const auto& u : point.updates) {
      updates += u.sum.with_update, swamped += u.sum.swamped, elements += u.sum.elements, zero += u.sum.zero_gradients;
      second += u.sum.second_underflowed, e.zero_denominators += u.sum.zero_denominators;
    }
    for (const auto& t : point.tensors) {
      if (t.operand) operands += t.elements, operands_lost += t.underflowed;
      if (t.operand || (t.role != training::Role::gradient_of_activation && t.role != training::Role::gradient_of_weight)) continue;
      gradients += t.elements, underflowed += t.underflowed;
    }
  }
  if (!record.curve.empty())
    for (const auto& last : record.curve.back().updates)
      for (const auto& first : record.curve.front().updates)
        if (first.name == last.name && first.sum.weight_norm > 0) e.growth = std::max(e.growth, last.sum.weight_norm / first.sum.weight_norm);
  const auto share = [](std::uint64_t part, std::uint64_t whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0; };
  e.swamped = share(swamped, updates), e.gradients_underflowed = share(underflowed, gradients), e.operands_underflowed = share(operands_lost, operands);
  e.gradients_zero = share(zero, elements), e.second_underflowed = share(second, elements);
  return e;
}

Diagnosis diagnose(const training::TrainingRecord& record, bool worse) {
  const Evidence e = evidence_of(record);
  const auto place = [](const std::optional<training::FirstNonFinite>& first) { return fmt::format("{} ({}) at step {}", first->name, name_of(first->role), first->step + 1); };
  if (record.diverged) {
    std::string why = fmt::format("parameters are Inf or NaN after step {}", *record.diverged + 1);
    if (record.first_infinite) why += "; first Inf: " + place(record.first_infinite);
    if (record.first_nan) why += "; first NaN: " + place(record.first_nan);
    if (record.first_infinite || record.first_nan) return {why, "loss scaling that skips such steps, or a format with more range"};
    // No tensor of a pass had one: the update has made it.
    if (e.zero_denominators) return {why + fmt::format("; the update divides {} numbers by zero: second moment and eps both round to zero", e.zero_denominators), "optimizer in FP32 (O2), or a larger eps"};
    return {why + "; the update made it", "optimizer in FP32 (O2)"};
  }
  if (!worse) return {};
  if (e.zero_denominators) return {fmt::format("{} updates divided by zero", e.zero_denominators), "eps and second moments in FP32"};
  if (e.growth > 100 || !(record.final.loss < 100)) {
    const std::string grown = fmt::format("weights have grown {:.2g} times", e.growth);
    if (e.second_underflowed > 0.05) return {grown + fmt::format(": {:.0f} % of Adam's second moments are zero where gradients are not, and updates are divided by eps", 100 * e.second_underflowed), "FP32 optimizer states and constants"};
    return {grown, "a smaller learning rate, or FP32 optimizer states"};
  }
  if (e.swamped > 0.2) return {fmt::format("{:.0f} % of the updates leave their weight as it was", 100 * e.swamped), "FP32 master weights, stochastic rounding or Kahan summation"};
  if (e.second_underflowed > 0.05) return {fmt::format("{:.0f} % of Adam's second moments underflow", 100 * e.second_underflowed), "FP32 optimizer states"};
  if (e.gradients_underflowed > 0.05) return {fmt::format("{:.0f} % of the gradients underflow", 100 * e.gradients_underflowed), "loss scaling"};
  if (e.operands_underflowed > 0.05)
    return {fmt::format("{:.0f} % of what enters products is rounded to zero", 100 * e.operands_underflowed), "smaller blocks, scales with more digits, or more bits in the sensitive layers"};
  if (record.skipped() * 10 > record.curve.back().step) return {fmt::format("{} of {} steps were skipped", record.skipped(), record.curve.back().step), "a smaller first scale"};
  return {"no single loss of the microscope's: rounding noise in products and activations", "more bits in the sensitive layers"};
}

}  // namespace halfulp::trainings
