// Products of arrays in block formats against the CPU's own fp32 and double, in which the sums of these segments are
// exact. Packed storage. Delayed scaling against Transformer Engine's procedure, written step by step.
#include "check.hpp"

#include <halfulp/emulation/block/delayed.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/block/packed.hpp>

namespace {

using namespace halfulp;

std::vector<float> normal_like(std::size_t count, std::uint64_t seed) {
  check::Random random{seed};
  std::vector<float> x(count);
  for (float& v : x)
    v = std::ldexp(static_cast<float>(static_cast<std::int64_t>(random()) >> 40) * 0x1p-23f,
                   static_cast<int>(random() % 9) - 4);
  return x;
}

BlockArray array_of(const char* format, std::size_t rows, std::size_t columns, std::uint64_t seed) {
  return quantize_blocks(parse_block_format(format), {}, normal_like(rows * columns, seed), rows, columns);
}

float as_float(std::uint64_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code)); }

/// An element without its scale and zero point.
double element(const BlockArray& x, std::size_t row, std::size_t k) {
  const BlockGrid g = block_grid(x.format, x.rows, x.columns);
  const double value = x.format.element.value(x.codes[row * x.columns + k]);
  return x.zeros.empty() ? value : value - x.zeros[g.index(row, k)];
}
float scale_of(const BlockArray& x, std::size_t row, std::size_t k) {
  return static_cast<float>(x.format.scale.value(x.scales[block_grid(x.format, x.rows, x.columns).index(row, k)]));
}

/// The definition: `inside` sums the segments, which are scaled and added in fp32.
template <class Inside>
float by_hand(const BlockArray& a, std::size_t i, const BlockArray& b, std::size_t j, ScaleOrder order, Inside inside) {
  const std::size_t wa = block_grid(a.format, a.rows, a.columns).block_columns,
                    wb = block_grid(b.format, b.rows, b.columns).block_columns;
  float sum = 0;
  for (std::size_t k = 0; k < a.columns;) {
    const std::size_t end = std::min({a.columns, (k / wa + 1) * wa, (k / wb + 1) * wb});
    const float p = inside(k, end), sa = scale_of(a, i, k), sb = scale_of(b, j, k);
    const float q = order == ScaleOrder::after ? (p * sa) * sb : p * (sa * sb);
    sum = k == 0 ? q : sum + q;
    k = end;
  }
  if (a.format.tensor_scale) sum *= a.tensor_scale;
  if (b.format.tensor_scale) sum *= b.tensor_scale;
  return sum;
}

TEST(BlockDot, ExactSegmentsScaledInFp32) {
  for (const auto& [fa, fb] : {std::pair{"mxfp8", "mxfp8"},
                               {"mxfp8e5m2", "mxfp8"},
                               {"mxfp4/rceil", "mxfp6"},
                               {"nvfp4", "nvfp4"},
                               {"fp8-1x128", "fp8-128x128"},
                               {"mxint8", "mxfp4"},
                               {"int8", "int8-affine"},
                               {"int4-affine", "int4"},
                               {"e4m3/1x48/e8m0", "mxfp8"},
                               {"e4m3-tensor", "e5m2-row"},
                               {"nvfp4", "int8"}}) {
    const BlockArray a = array_of(fa, 5, 300, 1), b = array_of(fb, 130, 300, 2);
    for (const ScaleOrder order : {ScaleOrder::after, ScaleOrder::product}) {
      BlockDot model;
      model.order = order;
      std::vector<std::uint64_t> c(5 * 130);
      block_gemm(model, a, b, c);
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 130; ++j) {
          const float want = by_hand(a, i, b, j, order, [&](std::size_t begin, std::size_t end) {
            long double sum = 0;  // 64 bits: exact
            for (std::size_t k = begin; k < end; ++k)
              sum += static_cast<long double>(element(a, i, k)) * element(b, j, k);
            return static_cast<float>(sum);
          });
          ASSERT_EQ(as_float(c[i * 130 + j]), want) << fa << " " << fb << " " << i << " " << j;
          ASSERT_EQ(block_dot(model, a, i, b, j, i * 130 + j), c[i * 130 + j]);
        }
    }
  }
}

TEST(BlockDot, DotModelsAndMatrixUnitsInside) {
  const BlockArray a = array_of("fp8-1x128", 3, 512, 3), b = array_of("fp8-128x128", 4, 512, 4);
  BlockDot fp32_inside, deepseek;
  fp32_inside.inside = DotModel{};
  fp32_inside.inside->product = Stage{fp32, {}};
  fp32_inside.inside->accumulator = Stage{fp32, {}};
  deepseek.unit = &find_unit("hopper.wgmma.e4m3.fp32");
  std::size_t differ = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      const float want = by_hand(a, i, b, j, ScaleOrder::after, [&](std::size_t begin, std::size_t end) {
        float sum = 0;
        for (std::size_t k = begin; k < end; ++k) {
          const float p = static_cast<float>(element(a, i, k)) * static_cast<float>(element(b, j, k));
          sum = k == begin ? p : sum + p;
        }
        return sum;
      });
      EXPECT_EQ(as_float(block_dot(fp32_inside, a, i, b, j)), want);
      const float promoted = by_hand(a, i, b, j, ScaleOrder::after, [&](std::size_t begin, std::size_t end) {
        std::vector<std::uint64_t> x, y;
        for (std::size_t k = begin; k < end; ++k) x.push_back(a.codes[i * 512 + k]), y.push_back(b.codes[j * 512 + k]);
        return as_float(mma(*deepseek.unit, {x, y, {}, {}}, 0));
      });
      EXPECT_EQ(as_float(block_dot(deepseek, a, i, b, j)), promoted);
      differ += promoted != want;
    }
  EXPECT_GT(differ, 0u);  // sums of 14 bits show
}

TEST(BlockDot, NothingAndNotANumber) {
  const BlockArray none = array_of("mxfp8", 2, 0, 1);
  EXPECT_EQ(block_dot({}, none, 0, none, 1), 0u);
  std::vector<float> x(64, 1.0f), y(64, 1.0f);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  const BlockFormat f = parse_block_format("mxfp4");
  const BlockArray a = quantize_blocks(f, {}, x, 1, 64), b = quantize_blocks(f, {}, y, 1, 64);
  EXPECT_TRUE(std::isnan(as_float(block_dot({}, a, 0, b, 0))));
  EXPECT_EQ(as_float(block_dot({}, b, 0, b, 0)), 64.0f);
  BlockArray infinite = quantize_blocks(parse_block_format("mxfp8e5m2"), {}, y, 1, 64);
  infinite.codes[5] = 0x7c;
  EXPECT_EQ(as_float(block_dot({}, infinite, 0, b, 0)), std::numeric_limits<float>::infinity());
}

TEST(BlockDot, Refusals) {
  const BlockFormat fp8 = parse_block_format("mxfp8"), i8 = parse_block_format("int8"),
                    fp4 = parse_block_format("mxfp4");
  BlockDot model;
  EXPECT_EQ(refusal(model, fp8, i8), "");
  model.inside = DotModel{};
  model.inside->accumulator = Stage{fp32, {}};
  EXPECT_EQ(refusal(model, fp8, fp8), "");
  for (const auto& [a, b] : {std::pair{fp8, i8}, {fp8, fp4}}) EXPECT_NE(refusal(model, a, b), "");
  model.unit = &find_unit("hopper.wgmma.e4m3.fp32");
  EXPECT_NE(refusal(model, fp8, fp8), "");
  model.inside.reset();
  EXPECT_EQ(refusal(model, fp8, fp8), "");
  EXPECT_NE(refusal(model, fp4, fp4), "");
  BlockDot wide;
  EXPECT_NE(refusal(wide, parse_block_format("e6m1finite/1x32/fp32"), parse_block_format("e6m1finite/1x32/fp32")), "");
  wide.outer.format = e8m0;
  EXPECT_NE(refusal(wide, fp8, fp8), "");
  const BlockArray a = array_of("mxfp8", 1, 32, 1), b = array_of("mxfp8", 1, 64, 1);
  EXPECT_THROW(block_dot({}, a, 0, b, 0), std::invalid_argument);
  EXPECT_THROW(block_dot({}, a, 1, a, 0), std::invalid_argument);
  std::vector<std::uint64_t> c(2);
  EXPECT_THROW(block_gemm({}, a, a, c), std::invalid_argument);
}

TEST(PackedCodes, NibblesLowFirstAndFp6AsAStream) {
  EXPECT_EQ(pack_codes(std::vector<std::uint8_t>{0x1, 0xe, 0x7}, 4), (std::vector<std::uint8_t>{0xe1, 0x07}));
  EXPECT_EQ(pack_codes(std::vector<std::uint8_t>{0x3f, 0x00, 0x2a, 0x15}, 6),
            (std::vector<std::uint8_t>{0x3f, 0xa0, 0x56}));
  check::Random random{5};
  for (int bits = 1; bits <= 8; ++bits)
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<std::uint8_t> codes(count);
      for (auto& c : codes) c = static_cast<std::uint8_t>(random() & ((1u << bits) - 1));
      const std::vector<std::uint8_t> bytes = pack_codes(codes, bits);
      EXPECT_EQ(bytes.size(), (count * static_cast<std::size_t>(bits) + 7) / 8);
      EXPECT_EQ(unpack_codes(bytes, count, bits), codes);
    }
  EXPECT_THROW(unpack_codes(std::vector<std::uint8_t>(3), 7, 4), std::invalid_argument);
  EXPECT_EQ(unpack_codes(std::vector<std::uint8_t>(3), 6, 4).size(), 6u);
}

TEST(DelayedAmax, FollowsTransformerEngineStepByStep) {
  check::Random random{9};
  for (const AmaxChoice choice : {AmaxChoice::max, AmaxChoice::most_recent})
    for (const std::size_t length : {1u, 2u, 16u})
      for (const int margin : {0, 2}) {
        DelayedAmax ours(448, length, choice, margin);
        std::vector<float> history(length, 0.0f);  // [0] holds the current tensor
        float scale = 1;
        for (int step = 0; step < 200; ++step) {
          EXPECT_EQ(448.0f / ours.amax(), scale) << step;
          float amax = std::ldexp(1.0f + static_cast<float>(random() >> 41) * 0x1p-23f,
                                  static_cast<int>(random() % 20) - 10);
          if (step % 13 == 5) amax = 0;
          if (step % 17 == 3) amax = std::numeric_limits<float>::infinity();
          if (step % 19 == 3) amax = std::numeric_limits<float>::quiet_NaN();
          history[0] = amax;
          float most = 0;
          for (const float h : history) most = std::fmax(most, h);
          const float a = choice == AmaxChoice::max ? most : amax;
          if (std::isfinite(a) && a > 0) scale = std::ldexp(448.0f, -margin) / a;
          std::rotate(history.begin(), history.begin() + 1,
                      history.end());  // the newest goes last, which frees the first place
          if (length > 1) history[0] = 0;
          ours.record(amax);
        }
      }
  EXPECT_THROW(DelayedAmax(448, 0), std::invalid_argument);
}

TEST(DelayedAmax, GoesIntoTheQuantization) {
  const BlockFormat f = parse_block_format("e4m3/tensor/fp32/amax/multiplier");
  DelayedAmax delayed(static_cast<float>(f.element.target()));
  const std::vector<float> x{1.0f, -500.0f, 0.25f};
  const auto quantized = [&] { return quantize_blocks(f, {}, x, 1, 3, {{}, delayed.amax()}); };
  EXPECT_EQ(quantized().codes,
            (std::vector<std::uint8_t>{0x38, 0xfe, 0x28}));  // the scale is 1 at first: -500 saturates
  delayed.record(largest_magnitude(x));
  EXPECT_EQ(as_float(quantized().scales[0]), 1.0f / (448.0f / 500.0f));
  EXPECT_EQ(quantized().codes[1], 0xfe);
}

}  // namespace
