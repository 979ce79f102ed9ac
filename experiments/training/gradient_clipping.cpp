#include <halfulp/experiments/training/gradient_clipping.hpp>

#include <cmath>

namespace halfulp::training {

double gradient_norm(Gradients gradients) {
  double sum = 0;
  for (const std::span<float> tensor : gradients)
    for (const float x : tensor) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

Clipping clip_gradients(Gradients gradients, float most) {
  Clipping result;
  result.norm = gradient_norm(gradients);
  const float reciprocal = 1.0f / (static_cast<float>(result.norm) + 1e-6f);  // torch divides a number by a tensor so
  const float coefficient = reciprocal * most;
  if (coefficient >= 1) return result;
  result.coefficient = coefficient;
  for (std::size_t t = 0; t < gradients.size(); ++t) unscale_in_place(gradients[t], coefficient, t);
  return result;
}

}  // namespace halfulp::training
