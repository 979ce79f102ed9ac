// Block formats over arrays equal the scalar definition, element by element, with every instruction set of this CPU,
// any shape and any number of threads. Names, grids, refusals.
#include "emulation/array/array_cases.hpp"
#include "block_cases.hpp"

#include <tbb/global_control.h>

namespace block_test {

using namespace halfulp;
using namespace check;

INSTANTIATE_TEST_SUITE_P(InstructionSets, Arrays, instruction_sets(), set_name);

/// Rows of blocks on the edges of the rules.
std::vector<float> edge_array(const BlockFormat& f, std::size_t rows, std::size_t columns, Random& random) {
  std::vector<float> in;
  const std::vector<float> edges = edge_magnitudes(f, random);
  const std::size_t width = f.columns ? f.columns : columns;
  while (in.size() < rows * columns) {
    float amax = edges[random() % edges.size()];
    if (f.tensor_scale && std::isinf(amax) && random() % 8) amax = 1;
    const std::vector<float> block = edge_block(f, amax, width, random);
    in.insert(in.end(), block.begin(), block.end());
  }
  in.resize(rows * columns);
  return in;
}

bool same(const BlockArray& a, const BlockArray& b) {
  return a.codes == b.codes && a.scales == b.scales && a.zeros == b.zeros && same_bits(a.tensor_scale, b.tensor_scale);
}

void expect_definition(const BlockFormat& f, const Rounding& r, const std::vector<float>& in, std::size_t rows,
                       std::size_t columns, std::optional<float> given = {}) {
  BlockOptions options{check::stream, given};
  if (r.random_bits <= 16) options.random.roundings_per_word = 2;
  const BlockArray want = by_definition(f, r, in, rows, columns, options.random, given),
                   got = quantize_blocks(f, r, in, rows, columns, options);
  const auto where = [&] {
    return description(f) + " " + std::string(name_of(r.mode)) + ", " + std::to_string(rows) + " x " +
           std::to_string(columns);
  };
  if (!same(got, want)) {
    for (std::size_t i = 0; i < want.scales.size(); ++i)
      if (got.scales[i] != want.scales[i]) {
        ADD_FAILURE() << where() << ": scale " << i << " is " << got.scales[i] << ", not " << want.scales[i];
        return;
      }
    for (std::size_t i = 0; i < in.size(); ++i)
      if (got.codes[i] != want.codes[i]) {
        ADD_FAILURE() << where() << ": element " << i << " (" << in[i] << ") is " << int{got.codes[i]} << ", not "
                      << int{want.codes[i]};
        return;
      }
    ADD_FAILURE() << where() << ": zero points or tensor scale";
    return;
  }
  std::vector<float> values(in.size()), fused(in.size());
  dequantize_blocks(got, values);
  quantize_block_values(f, r, in, rows, columns, fused, options);
  const BlockGrid g = block_grid(f, rows, columns);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float want_value = block_value(f, got.step(g.index(i / columns, i % columns)), got.codes[i]);
    ASSERT_TRUE(same_bits(values[i], want_value))
        << where() << ": value " << i << " is " << values[i] << ", not " << want_value;
    ASSERT_TRUE(same_bits(fused[i], values[i]))
        << where() << ": fused value " << i << " is " << fused[i] << ", not " << values[i];
  }
  if (f.element.is_affine()) return;
  ScalesApart tensor, blocks{true, {}, 0};
  std::vector<float> scaled(in.size()), elements(in.size());
  quantize_block_values(f, r, in, rows, columns, scaled, options, &tensor);
  quantize_block_values(f, r, in, rows, columns, elements, options, &blocks);
  ASSERT_TRUE(tensor.blocks.empty() && blocks.blocks.size() == g.count()) << where();
  ASSERT_TRUE(same_bits(tensor.tensor, got.tensor_scale) && same_bits(blocks.tensor, got.tensor_scale)) << where();
  BlockArray without = got;
  without.tensor_scale = 1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t block = g.index(i / columns, i % columns);
    const BlockStep step = without.step(block);
    const auto element = static_cast<float>(f.element.value(got.codes[i]));
    ASSERT_TRUE(same_bits(blocks.blocks[block], step.value)) << where() << ": scale " << block;
    ASSERT_TRUE(same_bits(scaled[i], block_value(f, step, got.codes[i]))) << where() << ": " << scaled[i];
    ASSERT_TRUE(same_bits(elements[i], element) || (std::isnan(step.value) && std::isnan(elements[i])))
        << where() << ": element " << i << " is " << elements[i] << ", not " << element;
  }
}

TEST_P(Arrays, BlocksAreTheDefinition) {
  Random random{3};
  for (const BlockFormat& f : block_formats()) {
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{5, 130}, {1, 96}, {64, 1}, {3, 7}})
      expect_definition(f, {}, edge_array(f, rows, columns, random), rows, columns);
    for (const auto& mode : rounding_modes) {
      Rounding r;
      r.mode = mode.value;
      r.random_bits = 9;
      expect_definition(f, r, edge_array(f, 4, 70, random), 4, 70);
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(Arrays, StochasticVariantsAndFlushing) {
  Random random{4};
  for (const char* name : {"mxfp4", "int8", "int4-affine", "nvfp4"})
    for (const auto& variant : stochastic_variants) {
      const BlockFormat f = parse_block_format(name);
      Rounding r;
      r.mode = RoundingMode::stochastic;
      r.variant = variant.value;
      r.flush_inputs = r.flush_outputs = true;  // have no effect
      expect_definition(f, r, edge_array(f, 3, 64, random), 3, 64);
    }
}

TEST_P(Arrays, LargeArraysOfEveryShape) {
  Random random{5};
  for (const char* name : {"mxfp8", "nvfp4", "fp8-128x128", "e4m3-tensor", "e4m3-row", "int8-affine", "mxfp4/32x1",
                           "e5m2/column/fp32", "mxfp8/1x5000", "e4m3/300x300/fp32"}) {
    const BlockFormat f = parse_block_format(name);
    expect_definition(f, {}, edge_array(f, 301, 700, random), 301, 700);
    expect_definition(f, {}, edge_array(f, 2, 70'000, random), 2, 70'000);
    Rounding stochastic;
    stochastic.mode = RoundingMode::stochastic;
    expect_definition(f, stochastic, edge_array(f, 3, 5000, random), 3, 5000);
  }
}

TEST(Block, ThreadsHaveNoSay) {
  Random random{6};
  for (const NamedBlockFormat& row : block_catalogue()) {
    const std::vector<float> in = edge_array(row.format, 400, 1000, random);
    Rounding r;
    r.mode = RoundingMode::stochastic;
    const BlockArray all = quantize_blocks(row.format, r, in, 400, 1000);
    const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
    EXPECT_TRUE(same(quantize_blocks(row.format, r, in, 400, 1000), all)) << row.name;
  }
}

TEST(Block, AGivenMagnitudeReplacesTheArrays) {
  Random random{7};
  for (const char* name : {"e4m3-tensor", "e5m2/tensor/fp32/amax/multiplier", "int8", "mxfp8", "nvfp4"})
    for (const float amax : {1.0f, 0.0f, 3e38f, 1e-40f, std::numeric_limits<float>::infinity()}) {
      const BlockFormat f = parse_block_format(name);
      std::vector<float> in = edge_array(f, 3, 100, random);
      expect_definition(f, {}, in, 3, 100, amax);
    }
  EXPECT_THROW(quantize_blocks(parse_block_format("int8-affine"), {}, std::vector<float>(4), 2, 2, {{}, 1.0f}),
               std::invalid_argument);
}

TEST(Block, RandomBitsOutOfRangeAreRefused) {
  Rounding r;
  r.mode = RoundingMode::stochastic;
  const BlockFormat f = parse_block_format("mxfp8");
  std::vector<float> x(64, 1.0f);
  for (const int bits : {-1, 0, 33}) {
    r.random_bits = bits;
    EXPECT_THROW(quantize_blocks(f, r, x, 2, 32), std::invalid_argument) << bits;
    EXPECT_THROW(quantize_block_values(f, r, x, 2, 32, x), std::invalid_argument) << bits;
  }
  r.random_bits = 9;
  const BlockOptions four{{.roundings_per_word = 4}, {}};
  EXPECT_THROW(quantize_blocks(f, r, x, 2, 32, four), std::invalid_argument);
  EXPECT_THROW(quantize_block_values(f, r, x, 2, 32, x, four), std::invalid_argument);
}

// The payload of a NaN that is given as the largest magnitude does not reach the values.
TEST(Block, AGivenNanIsAnyNan) {
  const BlockFormat f = parse_block_format("nvfp4");
  const std::vector<float> in(64, 1.0f);
  BlockOptions options;
  options.amax = std::bit_cast<float>(0x7fc1'2345u);
  std::vector<float> values(64), at_once(64);
  dequantize_blocks(quantize_blocks(f, {}, in, 4, 16, options), values);
  quantize_block_values(f, {}, in, 4, 16, at_once, options);
  EXPECT_EQ(bits(values), bits(at_once));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[0]), 0x7fc0'0000u);
}

TEST(Block, ZeroAndNanAndInfiniteBlocks) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto first_scale = [](const char* name, float x) {
    return quantize_blocks(parse_block_format(name), {}, std::vector<float>{0.0f, x, -0.0f}, 1, 3);
  };
  for (const char* name : {"mxfp8", "mxfp4", "mxint8", "mxfp8/ceil", "mxfp8/even", "mxfp8/rceil"}) {
    EXPECT_EQ(first_scale(name, 0).scales[0], 0x00u) << name;  // 2^-127
    EXPECT_EQ(first_scale(name, nan).scales[0], 0xffu) << name;
    std::vector<float> values(3);
    dequantize_blocks(first_scale(name, nan), values);
    for (const float v : values) EXPECT_TRUE(std::isnan(v));
  }
  EXPECT_EQ(first_scale("mxfp8", inf).scales[0], 247u);  // 2^(128 - 8)
  EXPECT_EQ(first_scale("mxfp8", inf).codes[1], 0x7eu);  // 448
  EXPECT_EQ(first_scale("mxfp8/rceil", inf).scales[0], 254u);
  EXPECT_EQ(first_scale("mxint8", inf).scales[0], 254u);
  EXPECT_EQ(first_scale("mxfp4", 0).codes[2], 0x8u);  // -0 stays
  EXPECT_EQ(first_scale("mxint8", 0).codes[2], 0x0u);
  EXPECT_EQ(first_scale("nvfp4", 0).scales[0], 0x08u);             // 2^-6
  EXPECT_EQ(first_scale("fp8-1x128", 0).scales[0], 0x0080'0000u);  // 2^-126
  EXPECT_EQ(first_scale("fp8-1x128", nan).scales[0], 0x7fc0'0000u);
  EXPECT_EQ(first_scale("fp8-1x128", inf).scales[0], 0x7f7f'ffffu);
  EXPECT_EQ(first_scale("int8-affine", 0).zeros[0], -128);
  // A NaN spoils only its own block, even if scales are relative to the tensor's.
  std::vector<float> two(32, 1.0f);
  two[3] = nan;
  const BlockArray a = quantize_blocks(parse_block_format("nvfp4"), {}, two, 1, 32);
  EXPECT_EQ(a.scales, (std::vector<std::uint32_t>{0x7f, 0x7e}));
}

TEST(Block, EdgesOfArraysCutBlocksShort) {
  const BlockGrid g = block_grid(parse_block_format("fp8-128x128"), 129, 256);
  EXPECT_EQ(g.down, 2u);
  EXPECT_EQ(g.across, 2u);
  EXPECT_EQ(g.index(128, 255), 3u);
  std::vector<float> in(40, 0.25f), padded(64, 0.0f);
  in[39] = 3;
  std::copy(in.begin(), in.end(), padded.begin());
  const BlockArray shorter = quantize_blocks(parse_block_format("mxfp8"), {}, in, 1, 40),
                   longer = quantize_blocks(parse_block_format("mxfp8"), {}, padded, 1, 64);
  EXPECT_EQ(shorter.scales, longer.scales);
  EXPECT_TRUE(std::equal(shorter.codes.begin(), shorter.codes.end(), longer.codes.begin()));
  EXPECT_THROW(quantize_blocks(parse_block_format("mxfp8/whole"), {}, in, 1, 40), std::invalid_argument);
  EXPECT_NO_THROW(quantize_blocks(parse_block_format("mxfp8/whole"), {}, padded, 1, 64));
  for (const NamedBlockFormat& row : block_catalogue())
    for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{0, 0}, {0, 5}, {5, 0}}) {
      const BlockArray empty = quantize_blocks(row.format, {}, {}, rows, columns);
      EXPECT_TRUE(empty.scales.empty() && empty.codes.empty()) << row.name;
      EXPECT_NO_THROW(dequantize_blocks(empty, {}));
    }
  EXPECT_THROW(quantize_blocks(parse_block_format("mxfp8"), {}, in, 3, 13), std::invalid_argument);
}

std::string refused(const char* name) {
  try {
    parse_block_format(name);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "";
}

TEST(Block, NamesReadBack) {
  for (const NamedBlockFormat& row : block_catalogue()) {
    EXPECT_EQ(defect(row.format), "") << row.name;
    EXPECT_EQ(parse_block_format(row.name), row.format) << row.name;
    EXPECT_EQ(parse_block_format(description(row.format)), row.format) << description(row.format);
    EXPECT_EQ(format_name(row.format), row.name);
    for (const std::string_view alias : row.aliases)
      if (!alias.empty()) { EXPECT_EQ(parse_block_format(alias), row.format) << alias; }
  }
  for (const BlockFormat& f : block_formats()) EXPECT_EQ(parse_block_format(description(f)), f) << description(f);
  EXPECT_EQ(parse_block_format("MXFP4/RCEIL/1x16/whole"), parse_block_format("e2m1/1x16/e8m0/rceil/whole"));
  EXPECT_NE(refused("mxfp9").find("did you mean mxfp4?"), std::string::npos);
  for (const char* name : {"",
                           "/",
                           "mxfp4/",
                           "mxfp4/1x0",
                           "mxfp4/0x32",
                           "e4m3/1x32",
                           "e4m3/1x32/e8m0/amax",
                           "fp16/1x32/e8m0",
                           "int9/row/fp32",
                           "int1/row/fp32",
                           "int8.6affine/row/fp32",
                           "e8m0/1x32/e8m0",
                           "e4m3/1x32/fp64",
                           "e4m3/1x32/e2m1",
                           "uint8/row/fp32",
                           "int8affine/row/fp32/floor",
                           "e4m3/1x32/e8m0/amax/multiplier",
                           "nvfp4/multiplier",
                           "mxfp4/99999999999999999999x1",
                           "e4m3/row/fp32/amax/nearest"}) {
    EXPECT_NE(refused(name), "") << name;
    EXPECT_EQ(refused(name).find('\n'), std::string::npos) << name;
  }
}

TEST(Block, BitsAnElement) {
  EXPECT_EQ(parse_block_format("mxfp8").bits_per_element(), 8.25);
  EXPECT_EQ(parse_block_format("mxfp6").bits_per_element(), 6.25);
  EXPECT_EQ(parse_block_format("mxfp4").bits_per_element(), 4.25);
  EXPECT_EQ(parse_block_format("nvfp4").bits_per_element(), 4.5);
  EXPECT_EQ(parse_block_format("fp8-1x128").bits_per_element(), 8.25);
  EXPECT_EQ(parse_block_format("int4-affine").bits_per_element(), 4 + 36.0 / 128);
  EXPECT_EQ(parse_block_format("mxint8").element.target(), 127.0 / 64);
}

}  // namespace block_test
