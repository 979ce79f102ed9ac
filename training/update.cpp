#include <halfulp/training/update.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/training/layers/initialisation.hpp>

#include <cmath>
#include <string>

namespace halfulp::training {
namespace {

/// The operations whose results are rounded, in the order of the steps.
enum Step : std::size_t {
  decayed_gradient,
  scaled_first,
  first,
  lookahead,
  scaled_second,
  second,
  root,
  corrected,
  denominator,
  update,
  decayed_update,
  shrunk,
  step_count
};

/// The value that the format of `arithmetic` has for a number, to nearest.
double rounded(const FloatFormat& f, double x) { return f.value(encode(f, {}, x).code); }

}  // namespace

StepNumbers numbers_of(const OptimizerSettings& given, const UpdatePrecision& precision, std::uint64_t steps) {
  const auto constant = [&](double x) {
    return precision.rounded_constants ? rounded(precision.arithmetic->format, x) : x;
  };
  const auto as_float = [&](double x) { return static_cast<float>(constant(x)); };
  const double lr = constant(given.lr), weight_decay = constant(given.weight_decay);
  StepNumbers n;
  n.adam = given.kind != OptimizerKind::sgd;
  n.decoupled = given.kind == OptimizerKind::adamw && given.weight_decay != 0;
  if (n.decoupled) {
    n.shrink = as_float(1 - lr * weight_decay);
    n.shrunk = as_float(-(lr * weight_decay));
  } else {
    n.weight_decay = static_cast<float>(weight_decay);
  }
  if (!n.adam) {
    n.step = static_cast<float>(-lr);
    n.momentum = as_float(given.momentum);
    n.first_momentum = steps == 1;
    n.nesterov = given.nesterov;
    return n;
  }
  n.step = -as_float(lr / (1 - deterministic_power(given.beta1, steps)));
  n.weight1 = as_float(1 - constant(given.beta1));
  n.beta2 = as_float(given.beta2);
  n.weight2 = as_float(1 - constant(given.beta2));
  n.root = as_float(std::sqrt(1 - deterministic_power(given.beta2, steps)));
  n.eps = as_float(given.eps);
  return n;
}

OperationRounding::OperationRounding(const std::optional<Stage>& stage, std::uint64_t seed, std::string_view parameter,
                                     std::uint64_t step)
    : stage_(stage ? &*stage : nullptr), seed_(seed) {
  static_assert(step_count <= std::tuple_size_v<decltype(streams_)>);
  if (!stage_ || stage_->rounding.mode != RoundingMode::stochastic) return;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    streams_[i] = stream_of(std::string(parameter) + "/operation" + std::to_string(i), step);
}

void update_piece(const StepNumbers& n, bool kahan, const OperationRounding& rounding, const UpdatePiece& p) {
  const std::size_t count = p.weights.size();
  const auto round = [&](Step step, float* values) { rounding(step, p.begin, {values, count}); };
  float decayed[largest_piece], x[largest_piece];
  const float* d = p.gradient.data();
  float* const w = p.weights.data();
  float* const m = p.first.data();
  float* const v = p.second.data();

  if (n.weight_decay != 0) {
    for (std::size_t i = 0; i < count; ++i) decayed[i] = d[i] + n.weight_decay * w[i];
    round(decayed_gradient, decayed);
    d = decayed;
  }

  if (n.adam) {
    // lerp starts from the nearer end, so that weight 1 gives the gradient itself.
    if (n.weight1 < 0.5f) {
      for (std::size_t i = 0; i < count; ++i) m[i] = m[i] + n.weight1 * (d[i] - m[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) m[i] = d[i] + (n.weight1 - 1) * (d[i] - m[i]);
    }
    round(first, m);
    for (std::size_t i = 0; i < count; ++i) v[i] = v[i] * n.beta2;
    round(scaled_second, v);
    for (std::size_t i = 0; i < count; ++i) v[i] = v[i] + n.weight2 * d[i] * d[i];
    round(second, v);
    for (std::size_t i = 0; i < count; ++i) x[i] = std::sqrt(v[i]);
    round(root, x);
    for (std::size_t i = 0; i < count; ++i) x[i] = x[i] / n.root;
    round(corrected, x);
    for (std::size_t i = 0; i < count; ++i) x[i] = x[i] + n.eps;
    round(denominator, x);
    for (std::size_t i = 0; i < p.denominators.size(); ++i) p.denominators[i] = x[i];
    for (std::size_t i = 0; i < count; ++i) x[i] = n.step * m[i] / x[i];
  } else {
    if (!p.first.empty()) {
      if (n.first_momentum) {
        for (std::size_t i = 0; i < count; ++i) m[i] = d[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) m[i] = m[i] * n.momentum;
        round(scaled_first, m);
        for (std::size_t i = 0; i < count; ++i) m[i] = m[i] + d[i];
        round(first, m);
      }
      if (n.nesterov) {
        for (std::size_t i = 0; i < count; ++i) decayed[i] = d[i] + n.momentum * m[i];
        round(lookahead, decayed);
        d = decayed;
      } else {
        d = m;
      }
    }
    for (std::size_t i = 0; i < count; ++i) x[i] = n.step * d[i];
  }

  // x: the update. An operation that adds it to the weights computes it inside and does not round it.
  if (kahan) {
    round(update, x);
    if (n.decoupled) {
      for (std::size_t i = 0; i < count; ++i) x[i] = x[i] + n.shrunk * w[i];
      round(decayed_update, x);
    }
    for (std::size_t i = 0; i < count; ++i) p.update[i] = x[i];
    return;
  }
  for (std::size_t i = 0; i < p.update.size(); ++i) p.update[i] = n.decoupled ? x[i] + n.shrunk * w[i] : x[i];
  if (n.decoupled) {
    for (std::size_t i = 0; i < count; ++i) w[i] = w[i] * n.shrink;
    round(shrunk, w);
  }
  // The last operation writes the weights and rounds once, to their storage.
  for (std::size_t i = 0; i < count; ++i) w[i] = w[i] + x[i];
}

}  // namespace halfulp::training
