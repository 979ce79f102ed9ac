// Products of arrays in block formats against the CPU's own fp32 and doubles, in which the sums of these segments are
// exact, and against single operations; packed storage; delayed scaling against Transformer Engine's procedure written
// down step by step.
#include "check.hpp"

#include <halfulp/emulation/block/delayed.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/block/packed.hpp>

namespace block_dot_test {

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
  fp32_inside.inside = parse_product_model("fp32");
  const MatrixUnit& unit = find_unit("hopper.wgmma.e4m3.fp32");
  deepseek.inside = unit;
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
        return as_float(mma(unit, {x, y, {}, {}}, 0));
      });
      EXPECT_EQ(as_float(block_dot(deepseek, a, i, b, j)), promoted);
      differ += promoted != want;
    }
  EXPECT_GT(differ, 0u);  // sums of 14 bits show
}

/// The definition for any stage outside, one operation after the other; `inside` gives a segment's sum as a code word.
template <class Inside>
std::uint64_t by_operations(const BlockDot& dot, const BlockArray& a, std::size_t i, const BlockArray& b, std::size_t j,
                            std::uint64_t stream, Inside inside) {
  const FloatFormat& f = dot.outer.format;
  const bool stochastic = dot.outer.rounding.mode == RoundingMode::stochastic;
  std::uint64_t drawn = 0;
  const auto random = [&] { return stochastic ? rounding_bits(dot.seed, stream, drawn++) : 0; };
  const auto run = [&](Operation op, std::uint64_t x, std::uint64_t y) {
    return evaluate(op, f, dot.outer.rounding, x, y, 0, random()).code;
  };
  const auto outer = [&](const FloatFormat& from, std::uint64_t code) {
    return from == f ? code : convert(from, f, dot.outer.rounding, code, random()).code;
  };
  const BlockGrid ga = block_grid(a.format, a.rows, a.columns), gb = block_grid(b.format, b.rows, b.columns);
  std::uint64_t sum = f.zero();
  for (std::size_t k = 0; k < a.columns;) {
    const std::size_t end = std::min(
        {a.columns, (k / ga.block_columns + 1) * ga.block_columns, (k / gb.block_columns + 1) * gb.block_columns});
    const auto [format, code] = inside(k, end);
    const bool nothing = !dot.inside && fp64.is_zero(code);
    std::uint64_t p = nothing ? f.zero() : outer(format, code);
    if (!dot.inside && !nothing && f == fp64) random();  // an exact sum is rounded, if only to itself
    const std::uint64_t sa = outer(a.format.scale, a.scales[ga.index(i, k)]),
                        sb = outer(b.format.scale, b.scales[gb.index(j, k)]);
    p = dot.order == ScaleOrder::after ? run(Operation::mul, run(Operation::mul, p, sa), sb)
                                       : run(Operation::mul, p, run(Operation::mul, sa, sb));
    sum = k == 0 ? p : run(Operation::add, sum, p);
    k = end;
  }
  for (const BlockArray* x : {&a, &b})
    if (x->format.tensor_scale)
      sum = run(Operation::mul, sum, outer(fp32, std::bit_cast<std::uint32_t>(x->tensor_scale)));
  return sum;
}

TEST(BlockDot, AnyStageOutside) {
  check::Random random{11};
  for (const char* format : {"mxfp8", "nvfp4", "e4m3/1x48/e8m0", "int8", "mxint8"}) {
    const BlockArray a = array_of(format, 3, 100, 5), b = array_of(format, 4, 100, 6);
    for (const FloatFormat& f : {fp16, bf16, fp32, fp64})
      for (const auto& mode : rounding_modes)
        for (const ScaleOrder order : {ScaleOrder::after, ScaleOrder::product}) {
          BlockDot dot;
          dot.outer.format = f, dot.outer.rounding.mode = mode.value, dot.order = order, dot.seed = random();
          dot.outer.rounding.overflow = random() % 2 ? Overflow::saturate : Overflow::ieee;
          dot.outer.rounding.flush_outputs = random() % 2;
          std::vector<std::uint64_t> c(12);
          block_gemm(dot, a, b, c);
          for (std::size_t o = 0; o < 12; ++o) {
            const auto exact = [&](std::size_t begin, std::size_t end) {
              double sum = 0;
              for (std::size_t k = begin; k < end; ++k) sum += element(a, o / 4, k) * element(b, o % 4, k);
              return std::pair(fp64, std::bit_cast<std::uint64_t>(sum));
            };
            ASSERT_EQ(c[o], by_operations(dot, a, o / 4, b, o % 4, o, exact)) << format << ' ' << mode.name;
            ASSERT_EQ(block_dot(dot, a, o / 4, b, o % 4, o), c[o]);
          }
        }
  }
}

TEST(BlockDot, StochasticModelsInsideDrawForEveryOutput) {
  const BlockArray a = array_of("mxfp8", 3, 100, 5), b = array_of("mxfp8", 4, 100, 6);
  for (const FloatFormat& f : {fp32, bf16}) {
    BlockDot dot;
    dot.outer.format = f;
    dot.inside = parse_product_model("in=e4m3,mul=fp32,acc=bf16/stochastic,seed=7");
    const DotModel& inner = std::get<DotModel>(*dot.inside);
    std::vector<std::uint64_t> c(12);
    block_gemm(dot, a, b, c);
    for (std::size_t o = 0; o < 12; ++o)
      EXPECT_EQ(c[o], by_operations(dot, a, o / 4, b, o % 4, o, [&](std::size_t begin, std::size_t end) {
                  std::vector<std::uint64_t> x, y;
                  for (std::size_t k = begin; k < end; ++k)
                    x.push_back(a.codes[o / 4 * 100 + k]), y.push_back(b.codes[o % 4 * 100 + k]);
                  return std::pair(inner.result(), halfulp::dot(inner, x, y, o * 4 + begin));
                }));
  }
}

TEST(BlockDot, SegmentsEndWhereAScaleChanges) {
  const auto text = [](const std::vector<Segment>& segments) {
    std::string all;
    for (const Segment& s : segments)
      all += std::to_string(s.begin) + '-' + std::to_string(s.end) + (s.last ? "; " : ", ");
    return all;
  };
  EXPECT_EQ(text(segments_of(0, 4, 4)), "");
  EXPECT_EQ(text(segments_of(10, 0, 0)), "0-10; ");
  EXPECT_EQ(text(segments_of(10, 4, 0)), "0-4; 4-8; 8-10; ");
  EXPECT_EQ(text(segments_of(10, 4, 6)), "0-4; 4-6; 6-8; 8-10; ");
  EXPECT_EQ(text(segments_of(10, 6, 0, 4)), "0-4, 4-6; 6-10; ");
  EXPECT_EQ(text(segments_of(5, 0, 0, 2)), "0-2, 2-4, 4-5; ");
}

/// Operands of floats, however they lie in memory, are the same product.
TEST(BlockDot, FloatsWithScales) {
  const std::size_t m = 5, n = 130, k = 300;
  for (const auto& [fa, fb] : {std::pair{"mxfp8", "mxfp8"}, {"nvfp4", "nvfp4"}, {"fp8-1x128", "fp8-128x128"}}) {
    const BlockArray a = array_of(fa, m, k, 1), b = array_of(fb, n, k, 2);
    BlockDot dot;
    dot.inside = parse_product_model("in=e4m3,mul=exact,acc=fp32");
    std::vector<std::uint64_t> want(m * n);
    block_gemm(dot, a, b, want);
    const auto scales = [](const BlockArray& x) {
      std::vector<float> all;
      for (const std::uint32_t code : x.scales) all.push_back(static_cast<float>(x.format.scale.value(code)));
      return all;
    };
    const std::vector<float> sa = scales(a), sb = scales(b);
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        std::vector<float> x(m * k), y(n * k), d(m * n);
        FloatOperands operands{m, n, k};
        operands.transpose_a = transpose_a, operands.transpose_b = transpose_b;
        for (std::size_t j = 0; j < k; ++j) {
          for (std::size_t i = 0; i < m; ++i) x[operands.place_a()(i, j)] = static_cast<float>(element(a, i, j));
          for (std::size_t i = 0; i < n; ++i) y[operands.place_b()(j, i)] = static_cast<float>(element(b, i, j));
        }
        operands.a = x, operands.b = y;
        ProductModel model = *dot.inside;
        std::get<DotModel>(model).input = a.format.element.format;
        block_gemm(model, operands, {block_grid(a.format, m, k), sa, a.format.tensor_scale ? a.tensor_scale : 1},
                   {block_grid(b.format, n, k), sb, b.format.tensor_scale ? b.tensor_scale : 1}, d);
        for (std::size_t o = 0; o < m * n; ++o) ASSERT_EQ(d[o], as_float(want[o])) << fa << ' ' << o;
      }
  }
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
  model.inside = parse_product_model("fp32,mul=exact");
  EXPECT_EQ(refusal(model, fp8, fp8), "");
  for (const auto& [a, b] : {std::pair{fp8, i8}, {fp8, fp4}}) EXPECT_NE(refusal(model, a, b), "");
  model.inside = find_unit("hopper.wgmma.e4m3.fp32");
  EXPECT_EQ(refusal(model, fp8, fp8), "");
  EXPECT_NE(refusal(model, fp4, fp4), "");
  EXPECT_NE(refusal(model, fp8, i8), "");
  model.inside = find_unit("blackwell.tcgen05.mxe4m3.fp32");
  EXPECT_NE(refusal(model, fp8, fp8), "");
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

}  // namespace block_dot_test
