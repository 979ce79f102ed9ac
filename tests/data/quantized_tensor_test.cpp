// quantize_tensor works in place, part by part: what it gives is what the whole at once gives.
#include <halfulp/data/quantized_tensor.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace quantized_tensor_test {

using namespace halfulp;

constexpr std::uint64_t seed = 7;
constexpr std::size_t matrices = 3, rows = 270,
                      columns = 1400;  // a matrix is more than a part, and none of whole parts

/// Magnitudes over many binades.
FileTensor example() {
  FileTensor t{fp32, {matrices, rows, columns}, {}};
  for (std::size_t i = 0; i < matrices * rows * columns; ++i)
    t.values.push_back(std::ldexp(static_cast<float>(random_word(1, 0, i) % 2001) - 1000.0f,
                                  static_cast<int>(random_word(1, 1, i) % 30) - 20));
  t.values[1'000'000] = -0.0;
  return t;
}

Rounding stochastic() {
  Rounding rounding;
  rounding.mode = RoundingMode::stochastic;
  return rounding;
}

void expect_same_values(const std::string& what, std::span<const double> values, std::span<const double> wanted) {
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint64_t>(values[i]), std::bit_cast<std::uint64_t>(wanted[i])) << what << ", " << i;
}

TEST(QuantizedTensor, PlainFormatsByParts) {
  FileTensor before = example();
  before.values[500'000] = INFINITY, before.values[900'000] = NAN;
  std::vector<double> wanted(before.values.size());
  quantize(e4m3, stochastic(), before.values, wanted, {seed, 0, 0});
  const Quantized q = quantize_tensor(before, e4m3, stochastic(), seed, {});
  expect_same_values("e4m3", q.values, wanted);
  EXPECT_EQ(q.loss.elements, before.values.size());
  EXPECT_EQ(q.loss.nan_before, 1u);
  EXPECT_EQ(q.loss.infinite_before, 1u);
  std::uint64_t to_zero = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) to_zero += wanted[i] == 0 && before.values[i] != 0;
  EXPECT_EQ(q.loss.to_zero, to_zero);
}

/// Blocks along rows, along columns, in tiles and over all of a matrix; with a scale for the tensor, too.
TEST(QuantizedTensor, BlocksByParts) {
  const FileTensor before = example();
  const std::vector<float> in(before.values.begin(), before.values.end());
  for (const auto& [name, axis] : {std::pair<const char*, std::optional<int>>{"mxfp8e4m3", {}},
                                   {"mxfp8e4m3", 1},
                                   {"nvfp4", {}},
                                   {"fp8-128x128", {}},
                                   {"int4-affine", {}}}) {
    const std::string what = fmt::format("{} along {}", name, axis.value_or(2));
    BlockFormat f = parse_block_format(name);
    const Quantized q = quantize_tensor(before, f, stochastic(), seed, axis);
    if (axis) std::swap(f.rows, f.columns);
    BlockOptions options;
    options.random = {seed, 0, 0};
    if (f.tensor_scale) options.amax = largest_magnitude(in);
    std::vector<double> values;
    std::vector<std::uint8_t> codes;
    std::vector<std::uint32_t> scales;
    for (std::size_t m = 0; m < matrices; ++m) {
      options.random.first = m * rows * columns;
      const BlockArray a = quantize_blocks(f, stochastic(), std::span(in).subspan(m * rows * columns, rows * columns),
                                           rows, columns, options);
      std::vector<float> out(rows * columns);
      dequantize_blocks(a, out);
      values.insert(values.end(), out.begin(), out.end());
      codes.insert(codes.end(), a.codes.begin(), a.codes.end());
      scales.insert(scales.end(), a.scales.begin(), a.scales.end());
    }
    expect_same_values(what, q.values, values);
    EXPECT_EQ(q.codes, codes) << what;
    EXPECT_EQ(q.scales, scales) << what;
    EXPECT_EQ(q.loss.elements, values.size()) << what;
    std::uint64_t blocks = 1;
    for (const std::uint64_t size : q.scales_shape) blocks *= size;
    EXPECT_EQ(blocks, scales.size()) << what;
  }
}

/// A matrix without columns has rows of no scales.
TEST(QuantizedTensor, ScalesOfNothingKeepTheirAxes) {
  using Sizes = std::vector<std::uint64_t>;
  const auto scales = [](const Sizes& shape, const char* format) {
    return quantize_tensor({fp32, shape, {}}, parse_block_format(format), stochastic(), seed, {}).scales_shape;
  };
  EXPECT_EQ(scales({3, 0}, "mxfp8e4m3"), (Sizes{3, 0}));
  EXPECT_EQ(scales({0, 65}, "mxfp8e4m3"), (Sizes{0, 3}));
  EXPECT_EQ(scales({2, 0, 130}, "fp8-128x128"), (Sizes{2, 0, 2}));
  EXPECT_EQ(scales({0, 7}, "e4m3-row"), (Sizes{0, 1}));
  EXPECT_EQ(scales({0, 7}, "e4m3/column/fp32"), (Sizes{0, 7}));
}

}  // namespace quantized_tensor_test
