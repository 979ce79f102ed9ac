#include <halfulp/experiments/training/update_report.hpp>

#include <halfulp/experiments/training/sums.hpp>

#include <cmath>

namespace halfulp::training {
namespace {

/// Not for NaN, which is no value that was kept.
bool same(std::span<const float> before, std::span<const float> after, std::size_t i) { return after.empty() || before[i] == after[i]; }

}  // namespace

double norm_of(std::span<const float> values) {
  return std::sqrt(fixed_order_sum<double>(values.size(), [&](std::size_t i) { return double{values[i]} * double{values[i]}; }));
}

UpdateReport report_of(const UpdateTrace& t) {
  UpdateReport r;
  r.taken = true;
  r.elements = t.parameter.size();
  for (std::size_t i = 0; i < r.elements; ++i) {
    const bool update = t.update[i] != 0, gradient = t.gradient[i] != 0;
    r.with_update += update;
    r.swamped += update && same(t.target_before, t.target, i) && same(t.compensation_before, t.compensation, i);
    r.changed += t.parameter[i] != t.parameter_before[i] && !(std::isnan(t.parameter[i]) && std::isnan(t.parameter_before[i]));
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

}  // namespace halfulp::training
