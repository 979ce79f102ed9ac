#include <halfulp/training/layers/numerics.hpp>

#include <halfulp/training/layers/tensor.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace halfulp::training {
namespace {

void add_bias(const FloatOperands& x, std::span<const float> bias, float* d) {
  const std::size_t step = x.place_d().row;
  for_rows(x.m, x.n, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < x.n; ++j) {
        const float sum = d[i * step + j] + bias[j];
        d[i * step + j] = sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
      }
  });
}

}  // namespace

void multiply(const ProductModel& model, const FloatOperands& x, std::span<const float> bias, std::span<float> d,
              std::size_t count, std::uint64_t first_stream) {
  const auto one = [&](const FloatOperands& operands, std::span<float> result, std::uint64_t stream) {
    gemm(model, operands, result, stream);
    if (!bias.empty()) add_bias(operands, bias, result.data());
  };
  if (count == 1) return one(x, d, first_stream);
  const std::size_t size = x.m * x.n;
  for_rows(count, x.k * size / 8, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) one(x.nth(i), d.subspan(i * size, size), first_stream + i * size);
  });
}

void multiply(const MatrixOperands<std::span<const double>>& x, std::span<const double> bias, std::span<double> d,
              std::size_t count) {
  const Placement place_a = x.place_a(), place_b = x.place_b(), place_c = x.place_c(), place_d = x.place_d();
  for_rows(count * x.m, x.k * x.n, [&](std::size_t begin, std::size_t end) {
    std::vector<double> sums(x.n);
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t which = row / x.m, i = row % x.m;
      const double *const a = x.a.data() + which * x.m * x.k, *const b = x.b.data() + which * x.k * x.n;
      std::fill(sums.begin(), sums.end(), x.k || !x.c.empty() ? -0.0 : 0.0);  // -0 + x is x for every x, even -0
      for (std::size_t k = 0; k < x.k; ++k)
        for (std::size_t j = 0; j < x.n; ++j) sums[j] += a[place_a(i, k)] * b[place_b(k, j)];
      for (std::size_t j = 0; j < x.n; ++j) {
        if (!x.c.empty()) sums[j] += x.c[which * x.m * x.n + place_c(i, j)];
        if (!bias.empty()) sums[j] += bias[j];
        d[which * x.m * x.n + place_d(i, j)] = sums[j];
      }
    }
  });
}

}  // namespace halfulp::training
