#include <halfulp/training/optimizer.hpp>

#include <halfulp/support/json.hpp>
#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/layers/initialisation.hpp>
#include <halfulp/training/layers/tensor.hpp>
#include <halfulp/training/update.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace halfulp::training {
namespace {

/// Whether an element kept its value; a NaN did not.
bool same(std::span<const float> before, std::span<const float> after, std::size_t i) {
  return after.empty() || before[i] == after[i];
}

}  // namespace

double norm_of(std::span<const float> values) {
  return std::sqrt(
      fixed_order_sum<double>(values.size(), [&](std::size_t i) { return double{values[i]} * double{values[i]}; }));
}

UpdateReport report_of(const UpdateTrace& t) {
  UpdateReport r;
  r.taken = true;
  r.elements = t.parameter.size();
  for (std::size_t i = 0; i < r.elements; ++i) {
    const bool update = t.update[i] != 0, gradient = t.gradient[i] != 0;
    r.with_update += update;
    r.swamped += update && same(t.target_before, t.target, i) && same(t.compensation_before, t.compensation, i);
    r.changed += t.parameter[i] != t.parameter_before[i] &&
                 !(std::isnan(t.parameter[i]) && std::isnan(t.parameter_before[i]));
    r.zero_gradients += !gradient;
    r.second_underflowed += gradient && !t.second.empty() && t.second[i] == 0;
    r.zero_denominators += !t.denominators.empty() && t.denominators[i] == 0;
    r.non_finite += !std::isfinite(t.parameter[i]);
  }
  r.weight_norm = norm_of(t.parameter);
  r.gradient_norm = norm_of(t.gradient);
  r.update_norm = norm_of(t.update);
  return r;
}

namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument("optimizer: " + what); }

void require(const char* name, double value, bool below_one = false) {
  if (std::isfinite(value) && value >= 0 && (!below_one || value < 1)) return;
  refuse(fmt::format("{} is {}; accepted: a number from 0{}", name, value, below_one ? " up to but not 1" : " on"));
}

void check(const OptimizerSettings& s) {
  require("lr", s.lr);
  require("momentum", s.momentum);
  require("weight_decay", s.weight_decay);
  require("eps", s.eps);
  require("beta1", s.beta1, true);
  require("beta2", s.beta2, true);
  if (s.nesterov && s.kind == OptimizerKind::sgd && s.momentum == 0) refuse("nesterov without momentum");
}

void check(const UpdatePrecision& p) {
  if (p.weights.delayed || p.first.delayed || p.second.delayed)
    refuse("delayed scaling is for tensors of a pass, not for what is kept");
  if (p.master_weights && p.kahan) refuse("master_weights and kahan; accepted: one of them");
  if (p.rounded_constants && !p.arithmetic)
    refuse("rounded_constants without arithmetic, whose format they are rounded to");
  if (p.arithmetic && (!holds(fp32, p.arithmetic->format) || !p.arithmetic->format.is_signed))
    refuse("arithmetic in a format that is no part of fp32, or without sign");
}

}  // namespace

Optimizer::Optimizer(std::vector<TrainedParameter<float>*> parameters, const OptimizerSettings& settings,
                     const UpdatePrecision& precision, std::uint64_t seed)
    : settings_(settings), precision_(precision), seed_(seed) {
  check(settings);
  check(precision);
  std::set<std::string_view> names;
  for (TrainedParameter<float>* const p : parameters) {
    if (!names.insert(p->name).second) refuse("two parameters are named '" + p->name + "'");
    slots_.emplace_back(Slot{p});
  }
  begin();
}

void Optimizer::begin() {
  steps_ = 0;
  for (Slot& slot : slots_) {
    const Tensor<float>& value = slot.parameter->value;
    slot.steps = 0;
    if (precision_.master_weights) slot.master.assign(value.values().begin(), value.values().end());
    if (precision_.kahan) slot.compensation.assign(value.size(), 0);
    const bool adam = settings_.kind != OptimizerKind::sgd;
    if (adam || settings_.momentum != 0) slot.first.assign(value.size(), 0);
    if (adam) slot.second.assign(value.size(), 0);
    store_weights(slot);
  }
}

void Optimizer::set_lr(double lr) {
  require("lr", lr);
  settings_.lr = lr;
}

RandomStream Optimizer::random(const Slot& slot, std::string_view what) const {
  return {seed_, stream_of(slot.parameter->name + "/" + std::string(what), steps_), 0};
}

void Optimizer::store_weights(Slot& slot) {
  Tensor<float>& value = slot.parameter->value;
  if (precision_.master_weights) std::copy(slot.master.begin(), slot.master.end(), value.values().begin());
  store(precision_.weights, value.columns(), value.values(), random(slot, "weights"));
}

void Optimizer::step(std::vector<UpdateReport>* reports) {
  ++steps_;
  if (reports) reports->assign(slots_.size(), {});
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    UpdateReport* const report = reports ? &(*reports)[i] : nullptr;
    if (slot.parameter->has_gradient) {
      step(slot, report);
    } else if (report) {
      report->elements = slot.parameter->value.size();
      report->weight_norm = norm_of(slot.parameter->value.values());
    }
  }
}

void Optimizer::step(Slot& slot, UpdateReport* report) {
  ++slot.steps;
  TrainedParameter<float>& p = *slot.parameter;
  const std::size_t n = p.value.size(), columns = p.value.columns();
  const std::span<float> target = precision_.master_weights ? std::span<float>(slot.master) : p.value.values();
  std::vector<float> target_before, compensation_before;
  if (report || precision_.kahan) before_.assign(p.value.values().begin(), p.value.values().end());
  if (report) {
    if (precision_.master_weights) target_before = slot.master;
    compensation_before = slot.compensation;
    denominators_.resize(slot.second.size());
  }
  if (report || precision_.kahan) update_.resize(n);

  const StepNumbers numbers = numbers_of(settings_, precision_, slot.steps);
  const OperationRounding rounding(precision_.arithmetic, seed_, p.name, steps_);
  for_rows(n, 8, [&](std::size_t begin, std::size_t end) {
    for (; begin < end; begin += largest_piece) {
      const std::size_t count = std::min(largest_piece, end - begin);
      const auto part = [&](std::span<float> all, bool there) {
        return there ? all.subspan(begin, count) : std::span<float>();
      };
      update_piece(numbers, precision_.kahan, rounding,
                   {begin, part(p.gradient.values(), true), part(target, true), part(slot.first, !slot.first.empty()),
                    part(slot.second, !slot.second.empty()), part(update_, report || precision_.kahan),
                    part(denominators_, report && !slot.second.empty())});
    }
  });
  if (!slot.first.empty()) store(precision_.first, columns, slot.first, random(slot, "first"));
  if (!slot.second.empty()) store(precision_.second, columns, slot.second, random(slot, "second"));
  if (precision_.kahan) add_compensated(slot);
  else store_weights(slot);

  if (!report) return;
  *report = report_of({before_, p.value.values(), p.gradient.values(), update_, slot.second, denominators_,
                       precision_.master_weights ? target_before : before_, target, compensation_before,
                       slot.compensation});
}

/// y = u - c; s = w + y, stored; c = (s - w) - y, stored; w = s.
void Optimizer::add_compensated(Slot& slot) {
  const std::span<float> w = slot.parameter->value.values(), c = slot.compensation;
  const auto round = [&](std::span<float> values, std::string_view what) {
    if (precision_.arithmetic)
      quantize(precision_.arithmetic->format, precision_.arithmetic->rounding, values, values, random(slot, what));
  };
  compensated_.resize(w.size());
  const std::span<float> y = compensated_;
  for_elements(y, 1, [u = update_.data(), c = c.data()](std::size_t i) { return u[i] - c[i]; });
  round(y, "compensated");
  for_elements(w, 1, [old = before_.data(), y = y.data()](std::size_t i) { return old[i] + y[i]; });
  round(w, "sum");
  store_weights(slot);
  for_elements(c, 1, [w = w.data(), old = before_.data()](std::size_t i) { return w[i] - old[i]; });
  round(c, "gained");
  for_elements(c, 1, [c = c.data(), y = y.data()](std::size_t i) { return c[i] - y[i]; });
  round(c, "compensation");
  store(precision_.weights, slot.parameter->value.columns(), c, random(slot, "stored compensation"));
}

/// Calls visit(name, array) for every array that is not empty.
template <class Slots, class Visit>
void Optimizer::visit_arrays(Slots& slots, Visit&& visit) {
  for (auto& slot : slots) {
    const std::string name = "optimizer." + slot.parameter->name + ".";
    if (!slot.master.empty()) visit(name + "master", slot.master);
    if (!slot.compensation.empty()) visit(name + "compensation", slot.compensation);
    if (!slot.first.empty()) visit(name + "first", slot.first);
    if (!slot.second.empty()) visit(name + "second", slot.second);
  }
}

void Optimizer::save(Checkpoint& checkpoint) const {
  Json steps = Json::object();
  for (const Slot& slot : slots_) steps[slot.parameter->name] = slot.steps;
  checkpoint.state["optimizer"] = {{"steps", steps_}, {"lr", settings_.lr}, {"parameters", steps}};
  visit_arrays(slots_, [&](const std::string& name, const std::vector<float>& array) {
    checkpoint.add(name, std::span<const float>(array));
  });
}

void Optimizer::restore(const Checkpoint& checkpoint) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  Members state(checkpoint.state, checkpoint.place());
  Members own(state.need("optimizer"), state.at("optimizer"));
  const auto steps = static_cast<std::uint64_t>(own.integer("steps", 0, 0, most));
  const double lr = own.real("lr", settings_.lr);
  Members parameters(own.need("parameters"), own.at("parameters"));
  own.finish();
  std::vector<Slot> slots = slots_;
  for (Slot& slot : slots) {
    parameters.need(slot.parameter->name);
    slot.steps = static_cast<std::uint64_t>(parameters.integer(slot.parameter->name, 0, 0, most));
  }
  parameters.finish();
  visit_arrays(slots, [&](const std::string& name, std::vector<float>& array) {
    checkpoint.take(name, std::span<float>(array));
  });
  set_lr(lr);
  steps_ = steps;
  slots_ = std::move(slots);
}

}  // namespace halfulp::training
