#include <halfulp/training/update.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/training/layers/initialisation.hpp>

#include <cmath>
#include <string>

namespace halfulp::training {
namespace {

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
  if (!stage_ || stage_->rounding.mode != RoundingMode::stochastic) return;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    streams_[i] = stream_of(std::string(parameter) + "/operation" + std::to_string(i), step);
}

}  // namespace halfulp::training
