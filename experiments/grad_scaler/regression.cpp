#include <halfulp/experiments/grad_scaler/grad_scaler.hpp>

#include <halfulp/training/storage.hpp>

#include <bit>
#include <cmath>

namespace halfulp::grad_scaler {
namespace {

float feature(std::size_t i, std::size_t j) { return std::popcount(i & j) % 2 == 0 ? 1.0f : -1.0f; }

void to_half(std::span<float> values) { training::store({fp16}, 0, values); }

}  // namespace

std::array<float, examples> Regression::errors(bool half) const {
  Weights rounded = weights, predictions{};
  if (half) to_half(rounded);
  for (std::size_t i = 0; i < examples; ++i)
    for (std::size_t j = 0; j < examples; ++j) predictions[i] += feature(i, j) * rounded[j];
  if (half) to_half(predictions);
  for (std::size_t i = 0; i < examples; ++i) {
    float target = 0;
    for (std::size_t j = 0; j < examples; ++j) target += feature(i, j) * solution_[j];
    predictions[i] -= target;
  }
  return predictions;
}

double Regression::loss(bool half) const {
  double sum = 0;
  for (const float e : errors(half)) sum += static_cast<double>(e) * static_cast<double>(e);
  return sum / (2 * examples);
}

void Regression::backward(float factor, bool half, std::size_t from, std::size_t to) {
  std::array<float, examples> sent = errors(half);
  for (float& e : sent) e = factor * (e / examples);
  if (half) to_half(sent);
  Weights own{};
  for (std::size_t i = from; i < to; ++i)
    for (std::size_t j = 0; j < examples; ++j) own[j] += feature(i, j) * sent[i];
  if (half) to_half(own);
  for (std::size_t j = 0; j < examples; ++j) gradient[j] += own[j];
}

void Regression::take_step(float rate) {
  for (std::size_t j = 0; j < examples; ++j) weights[j] -= rate * gradient[j];
}

std::array<double, examples> Regression::exact_gradient() const {
  std::array<double, examples> g{};
  for (std::size_t j = 0; j < examples; ++j) g[j] = static_cast<double>(weights[j]) - static_cast<double>(solution_[j]);
  return g;
}

Weights even_solution(float size) {
  Weights t{};  // a bent function of the four bits of j: its Hadamard transform is of one size
  for (std::size_t j = 0; j < examples; ++j) t[j] = ((j & j >> 1) & 1) != ((j >> 2 & j >> 3) & 1) ? -size : size;
  return t;
}

double norm(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

}  // namespace halfulp::grad_scaler
