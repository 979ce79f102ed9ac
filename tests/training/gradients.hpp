// Gradients of layers against central finite differences in double.
#pragma once

#include <halfulp/training/layers/initialisation.hpp>
#include <halfulp/training/layers/module.hpp>

#include <halfulp/data/distributions.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

namespace check {

using namespace halfulp;
using namespace halfulp::training;

/// Normal numbers, the same on every platform.
template <class T>
Tensor<T> random_tensor(const Extents& extents, std::uint64_t stream, double scale = 1) {
  Tensor<T> x(extents);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(scale * normal_sample(7, stream, i));
  return x;
}

/// Compares `gradient` with central differences of `loss` by each value[i]. `loss` is a smooth function of `value`, of
/// size about 1.
inline void expect_gradient(const std::string& what, std::span<double> value, std::span<const double> gradient,
                            const std::function<double()>& loss, double tolerance = 1e-7) {
  ASSERT_EQ(value.size(), gradient.size()) << what;
  ASSERT_FALSE(value.empty()) << what;
  double largest = 0;
  for (const double g : gradient) largest = std::max(largest, std::fabs(g));
  int shown = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const double before = value[i], step = 1e-5 * std::max(1.0, std::fabs(before));
    value[i] = before + step;
    const double above = loss();
    value[i] = before - step;
    const double below = loss();
    value[i] = before;
    const double want = (above - below) / (2 * step), error = std::fabs(gradient[i] - want);
    if (error > tolerance * std::max(largest, 1e-2) && ++shown <= 3)
      ADD_FAILURE() << what << '[' << i << "]: backward says " << gradient[i] << ", differences say " << want;
  }
}

/// Checks all inputs and all parameters of a layer. The loss is the sum of its outputs with random weights. Draws the
/// parameters anew. `differentiable_input` is false where inputs are indices.
inline void expect_gradients(Module<double>& layer, Tensor<double> x, bool differentiable_input = true,
                             bool training = true, double tolerance = 1e-7) {
  ExactNumerics numerics;
  Pass<double> pass{numerics, training, 3, 5};
  std::uint64_t stream = 100;
  for (TrainedParameter<double>* const p : layer.parameters()) {
    for (std::size_t i = 0; i < p->value.size(); ++i)
      p->value[i] = 0.5 * normal_sample(11, stream, i) + (p->kind == ParameterKind::gain ? 1 : 0);
    ++stream;
    p->forget_gradient();
  }
  const Extents shape = layer.forward(pass, x).extents();
  const Tensor<double> weights = random_tensor<double>(shape, 50);
  const auto loss = [&] {
    const Tensor<double>& y = layer.forward(pass, x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  loss();
  const Tensor<double> dx = layer.backward(pass, weights);
  std::vector<Tensor<double>> gradients;
  for (TrainedParameter<double>* const p : layer.parameters()) {
    EXPECT_TRUE(p->has_gradient) << p->name;
    gradients.push_back(p->gradient);
  }
  if (differentiable_input) expect_gradient(layer.name() + " input", x.values(), dx.values(), loss, tolerance);
  std::size_t next = 0;
  for (TrainedParameter<double>* const p : layer.parameters())
    expect_gradient(p->name, p->value.values(), gradients[next++].values(), loss, tolerance);
  // A second backward adds to the gradients.
  loss();
  layer.backward(pass, weights);
  next = 0;
  for (TrainedParameter<double>* const p : layer.parameters()) {
    const Tensor<double>& once = gradients[next++];
    for (std::size_t i = 0; i < once.size(); ++i) ASSERT_EQ(p->gradient[i], 2 * once[i]) << p->name;
  }
}

}  // namespace check
