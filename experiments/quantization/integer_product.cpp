#include <halfulp/experiments/quantization/integer_sum.hpp>
#include <halfulp/experiments/quantization/integers.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/product/product.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/layers/tensor.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace halfulp::quantization {
namespace {

std::vector<std::int16_t> integers_of(const BlockArray& array) {
  std::vector<std::int16_t> all(array.codes.size());
  std::transform(array.codes.begin(), array.codes.end(), all.begin(),
                 [&](std::uint8_t code) { return static_cast<std::int16_t>(array.format.element.integer(code)); });
  return all;
}

/// Of every row.
std::vector<float> scales_of(const BlockArray& array) {
  const BlockGrid grid = block_grid(array.format, array.rows, array.columns);
  std::vector<float> scales(array.rows);
  for (std::size_t row = 0; row < array.rows; ++row) scales[row] = array.step(grid.index(row, 0)).value;
  return scales;
}

}  // namespace

std::vector<float> integer_product(const BlockArray& x, const BlockArray& w) {
  const std::size_t m = x.rows, n = w.rows, k = x.columns;
  const std::vector<std::int16_t> a = integers_of(x), b = integers_of(w);
  const std::vector<float> of_x = scales_of(x), of_w = scales_of(w);
  std::vector<float> y(m * n);
  training::for_rows(m, n * k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        std::int64_t sum = 0;
        constexpr std::size_t piece = 1 << 16;  // whose sum a 32-bit integer holds, as hardware's do
        for (std::size_t first = 0; first < k; first += piece)
          sum += sum_of_products(&a[i * k + first], &b[j * k + first], std::min(piece, k - first));
        y[i * n + j] = static_cast<float>(sum) * of_x[i] * of_w[j];
      }
  });
  return y;
}

LinearOperands in_fp16(std::size_t rows, std::size_t outputs, std::size_t features, std::span<const float> x,
                       std::span<const float> w) {
  LinearOperands o{rows, outputs, features, std::vector<float>(x.size()), std::vector<float>(w.size())};
  quantize(fp16, {}, x, o.x);
  quantize(fp16, {}, w, o.w);
  return o;
}

LinearOperands columns_of(const LinearOperands& from, std::span<const std::size_t> columns) {
  LinearOperands o{from.rows, from.outputs, columns.size(), {}, {}};
  const auto take = [&](const std::vector<float>& all, std::size_t rows, std::vector<float>& to) {
    to.reserve(rows * columns.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (const std::size_t c : columns) to.push_back(all[i * from.features + c]);
  };
  take(from.x, from.rows, o.x);
  take(from.w, from.outputs, o.w);
  return o;
}

std::vector<std::size_t> outlier_columns(std::span<const float> x, std::size_t features, double threshold) {
  std::vector<std::uint8_t> beyond(features);
  for (std::size_t i = 0; i < x.size(); ++i) beyond[i % features] |= std::fabs(static_cast<double>(x[i])) >= threshold;
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < features; ++c)
    if (beyond[c]) columns.push_back(c);
  return columns;
}

std::vector<double> exact_product(const LinearOperands& o) {
  const std::vector<double> x(o.x.begin(), o.x.end()), w(o.w.begin(), o.w.end());
  MatrixOperands<std::span<const double>> operands;
  operands.m = o.rows, operands.n = o.outputs, operands.k = o.features;
  operands.a = x, operands.b = w, operands.transpose_b = true;
  std::vector<double> y(o.rows * o.outputs);
  training::multiply(operands, {}, y);
  return y;
}

std::vector<float> fp16_product(const LinearOperands& o) {
  static const ProductModel model = parse_product_model("in=fp16,acc=fp32,out=fp16");
  FloatOperands operands;
  operands.m = o.rows, operands.n = o.outputs, operands.k = o.features;
  operands.a = o.x, operands.b = o.w, operands.transpose_b = true;
  std::vector<float> y(o.rows * o.outputs);
  gemm(model, operands, y);
  return y;
}

std::vector<float> int8_product(const LinearOperands& o, bool vector_wise) {
  const BlockFormat format = integers(8, vector_wise);
  if (o.features == 0) return std::vector<float>(o.rows * o.outputs);
  return integer_product(quantize_blocks(format, {}, o.x, o.rows, o.features),
                         quantize_blocks(format, {}, o.w, o.outputs, o.features));
}

SplitProduct split_product(const LinearOperands& o, double threshold) {
  const std::vector<std::size_t> outliers = outlier_columns(o.x, o.features, threshold);
  std::vector<std::size_t> all(o.features), regular;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::set_difference(all.begin(), all.end(), outliers.begin(), outliers.end(), std::back_inserter(regular));
  SplitProduct split{int8_product(columns_of(o, regular), true), outliers.size()};
  quantize(fp16, {}, split.y, split.y);
  if (outliers.empty()) return split;
  const std::vector<float> wide = fp16_product(columns_of(o, outliers));
  for (std::size_t i = 0; i < split.y.size(); ++i)
    split.y[i] += wide[i];  // of two FP16 numbers, so that rounding again is the same as once
  quantize(fp16, {}, split.y, split.y);
  return split;
}

double relative_error(std::span<const float> y, std::span<const double> exact) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double d = static_cast<double>(y[i]) - exact[i];
    error += d * d, norm += exact[i] * exact[i];
  }
  return norm > 0 ? std::sqrt(error / norm) : 0;
}

}  // namespace halfulp::quantization
