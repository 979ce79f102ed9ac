#include <halfulp/emulation/block/block.hpp>
#include <halfulp/training/loss_scaler.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <bit>
#include <cmath>

namespace halfulp::training {
namespace {

constexpr std::size_t block = 64;  // compilers vectorise loops of constant length

/// Whether any of `block` values is Inf or NaN: an exponent of ones carries into the sign's place.
bool any_non_finite(const float* x) {
  std::uint32_t carried = 0;
  for (std::size_t i = 0; i < block; ++i) carried |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7fff'ffff) + 0x0080'0000;
  return (carried >> 31) != 0;
}

void count(NonFiniteGradients& found, float x, std::uint64_t tensor, std::uint64_t element) {
  if (found.count() == 0) found.tensor = tensor, found.element = element;
  ++(std::isnan(x) ? found.nan : found.infinite);
}

/// One value after the other, with everything counted.
void unscale_slowly(std::span<float> values, float factor, std::uint64_t tensor, std::size_t first, Unscaled& result) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float x = values[i], y = x * factor;
    values[i] = std::isnan(y) ? std::bit_cast<float>(0x7fc0'0000u) : y;
    if (!std::isfinite(x)) count(result.before, x, tensor, first + i);
    else if (!std::isfinite(y)) count(result.appeared, y, tensor, first + i);
  }
}

}  // namespace

bool has_non_finite(std::span<const float> values) { return !std::isfinite(largest_magnitude(values)); }

void NonFiniteGradients::add(const NonFiniteGradients& other) {
  if (other.count() == 0) return;
  if (count() == 0) tensor = other.tensor, element = other.element;
  infinite += other.infinite;
  nan += other.nan;
}

Unscaled unscale_in_place(std::span<float> values, float factor, std::uint64_t tensor) {
  Unscaled result;
  const bool shrinks = std::abs(factor) <= 1;  // finite values stay finite
  std::size_t done = 0;
  for (; shrinks && done + block <= values.size(); done += block) {
    float* const x = values.data() + done;
    if (any_non_finite(x)) {
      unscale_slowly(values.subspan(done, block), factor, tensor, done, result);
    } else {
      for (std::size_t i = 0; i < block; ++i) x[i] *= factor;
    }
  }
  unscale_slowly(values.subspan(done), factor, tensor, done, result);
  return result;
}

double gradient_norm(Gradients gradients) {
  double sum = 0;
  for (const std::span<float> x : gradients)
    sum += fixed_order_sum<double>(x.size(), [&](std::size_t i) { return double{x[i]} * double{x[i]}; });
  return std::sqrt(sum);
}

Clipping clip_gradients(Gradients gradients, float most) {
  Clipping result;
  result.norm = gradient_norm(gradients);
  const float reciprocal = 1.0f / (static_cast<float>(result.norm) + 1e-6f);  // as torch divides a number by a tensor
  const float coefficient = reciprocal * most;
  if (coefficient >= 1) return result;
  result.coefficient = coefficient;
  for (std::size_t t = 0; t < gradients.size(); ++t) unscale_in_place(gradients[t], coefficient, t);
  return result;
}

}  // namespace halfulp::training
