// The experiment "attribution": parts of the error by hand, for single sources, for random operands.
#include "attribution.hpp"

#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/product/product.hpp>

namespace halfulp::attribution {
namespace attribution_test {

constexpr std::size_t scaling = 0, input = 1, products = 2, accumulation = 3, output = 4;

/// The parts of one output as rational numbers.
struct Parts {
  std::array<cpp_rational, source_count> forward, reverse, alone;
  cpp_rational exact, total;
};
Parts parts_of(const OperandStates& a, const OperandStates& b, const std::string& inside,
               std::optional<FloatFormat> out = {}, Sources active = all_sources) {
  SwitchedProduct product(a, b, parse_inside(inside), out);
  const Split s = split(product, active);
  EXPECT_EQ(s.not_adding_up(s.forward) + s.not_adding_up(s.reverse), 0u);
  Parts p;
  const cpp_rational common(product.common());
  for (std::size_t i = 0; i < source_count; ++i)
    p.forward[i] = rational(s.forward[i][0]) / common, p.reverse[i] = rational(s.reverse[i][0]) / common,
    p.alone[i] = rational(s.alone[i][0]) / common;
  p.exact = rational(s.exact[0]) / common, p.total = rational(s.total[0]) / common;
  return p;
}
/// All of the error is this source's, in every order.
void expect_only(const Parts& p, std::size_t source) {
  EXPECT_NE(p.total, 0);
  for (std::size_t i = 0; i < source_count; ++i) {
    EXPECT_EQ(p.forward[i], i == source ? p.total : cpp_rational(0))
        << "forward, part " << source_names[i] << " where there is only " << source_names[source];
    EXPECT_EQ(p.reverse[i], p.forward[i]) << "reverse, part " << source_names[i];
    EXPECT_EQ(p.alone[i], p.forward[i]) << "alone, part " << source_names[i];
  }
}

TEST(Attribution, parts_by_hand) {
  // E2M1 in blocks of 2, scaled by amax / 6: of (7, 1) the ideal scale is 7/6, and 1 becomes 1 instead of 6/7. So input
  // alone adds 7/6 - 1, and 7 stays.
  const OperandStates b = operand("fp16", {1, 1});
  const OperandStates blocks = operand("e2m1/1x2/fp32", {7, 1});
  const Parts p = parts_of(blocks, b, "exact");
  EXPECT_EQ(p.exact, 8);
  EXPECT_EQ(p.alone[input], cpp_rational(1, 6));
  EXPECT_EQ(p.reverse[input], rational(static_cast<double>(static_cast<float>(49 / 6.0))) - 8)
      << "7 times 7/6 is rounded to fp32, as accumulation is on";
  // The scale is the float next to 7/6: 9786709 / 2^23, and 7 becomes 6 times it, 1 once it. fp32 rounds 7 times it
  // again.
  const cpp_rational s(9786709, 8388608);
  EXPECT_EQ(blocks.scale[0], 9786709 / 8388608.0);
  EXPECT_EQ(p.forward[scaling] + p.forward[input], 7 * s - 8);
  EXPECT_EQ(p.total, rational(static_cast<double>(static_cast<float>(7 * (9786709 / 8388608.0)))) - 8);

  // E2M1 in an MX block by the rule floor: of (5, 1) the scale is 1, and 5 becomes 4. By 5/6, 5 is 6 elements and 1
  // one.
  std::vector<double> five(32, 0);
  five[0] = 5, five[1] = 1;
  const Parts mx = parts_of(operand("mxfp4", five), operand("fp16", std::vector<double>(32, 1)), "exact", {},
                            all_sources & ~only(ErrorSource::accumulation));
  EXPECT_EQ(mx.forward[scaling], 0);
  EXPECT_EQ(mx.forward[input], -1);
  EXPECT_EQ(mx.reverse[input], cpp_rational(-1, 6));
  EXPECT_EQ(mx.reverse[scaling], cpp_rational(-5, 6));

  // fp16: 2048 + 1 + 1 stays 2048.
  const Parts sums = parts_of(operand("fp16", {2048, 1, 1}), operand("fp16", {1, 1, 1}), "fp16,mul=exact");
  EXPECT_EQ(sums.forward[accumulation], -2);
  expect_only(sums, accumulation);
  // 1.125 * 1.125 = 1.265625 is 1.25 in e4m3.
  const Parts product = parts_of(operand("e4m3", {1.125}), operand("e4m3", {1.125}), "in=e4m3,mul=e4m3,acc=fp32");
  EXPECT_EQ(product.forward[products], cpp_rational(-1, 64));
  expect_only(product, products);
  // 257 is 256 in bf16.
  const Parts stored = parts_of(operand("fp16", {257}), operand("fp16", {1}), "exact", bf16);
  EXPECT_EQ(stored.forward[output], -1);
  expect_only(stored, output);
  // On Hopper's FP8 unit 0.5 is cut off beside 2^13: 13 bits below the largest exponent.
  const Parts unit = parts_of(operand("e4m3", {128, 0.5}), operand("e4m3", {64, 1}), "hopper.wgmma.e4m3.fp32");
  EXPECT_EQ(unit.forward[accumulation], cpp_rational(-1, 2));
  expect_only(unit, accumulation);
  // Promotion after each product keeps it.
  EXPECT_EQ(parts_of(operand("e4m3", {128, 0.5}), operand("e4m3", {64, 1}), "hopper.wgmma.e4m3.fp32@1").total, 0);
}

TEST(Attribution, one_source_that_is_there_has_all_the_error) {
  // Scaling: amax and 0 need no rounding, the scale amax / 448 does; elements are 448 and 0 either way. (With
  // accumulation on, the multiplication with the scale in fp32 rounds 448 s back to amax.)
  double amax = 3;
  while (operand("e4m3-tensor", {amax, 0}).scaled[0] != 448) amax += 1;
  expect_only(parts_of(operand("e4m3-tensor", {amax, 0}), operand("e4m3", {1, 1}), "fp64,mul=exact", {},
                       all_sources & ~only(ErrorSource::accumulation)),
              scaling);
  EXPECT_EQ(parts_of(operand("e4m3-tensor", {amax, 0}), operand("e4m3", {1, 1}), "fp64,mul=exact").total, 0);
  // Input: 448 makes the scale 1, by every rule; sums of few bits.
  for (const char* format : {"e4m3-tensor", "fp8-1x128", "mxfp8e4m3/rceil", "mxfp8e4m3", "e4m3"}) {
    Random random{3};
    auto values = draws(random, 64, 8, 2);
    values[0] = values[32] = 448;
    expect_only(parts_of(operand(format, values), operand("e4m3", std::vector<double>(64, 1)), "fp64,mul=exact"),
                input);
  }
  // The same with two levels of scales: 4 * 6 * 448 is largest, so the tensor's scale is 4, and the blocks' are 448
  // and 1.
  std::vector<double> two(32, 0.6875);
  for (int i = 0; i < 16; ++i) two[static_cast<std::size_t>(i)] *= 448;
  two[0] = 6 * 448, two[16] = 6;
  for (double& v : two) v *= 4;
  expect_only(parts_of(operand("nvfp4/divide", two), operand("e4m3", std::vector<double>(32, 1)), "fp64,mul=exact"),
              input);
  // Products, accumulation, output: of E4M3 numbers.
  Random random{4};
  std::vector<double> small;
  for (int i = 0; i < 64; ++i)
    small.push_back(std::ldexp(static_cast<double>(random() % 15) + 1, static_cast<int>(random() % 4) - 5));
  const OperandStates a = operand("e4m3", small);
  for (const char* inside : {"in=e4m3,mul=fp16/toward-zero,acc=fp64", "in=e4m3,mul=bf16/toward-zero,acc=fp64",
                             "in=e4m3,mul=e4m3,acc=fp64"}) {
    const Parts p = parts_of(a, a, inside);
    if (p.total != 0) { expect_only(p, products); }
    EXPECT_EQ(p.total != 0, std::string(inside) == "in=e4m3,mul=e4m3,acc=fp64") << inside << ": products of 8 bits";
  }
  for (const char* inside : {"fp16,mul=exact", "bf16,mul=exact,order=pairwise:4", "e5m6,mul=exact,order=interleaved:4",
                             "fp16,mul=fp32", "in=e4m3,mul=fp32,acc=e5m6,comp=kahan", "hopper.wgmma.e4m3.fp32",
                             "bf16,mul=fp32,order=blocked:8,comp=neumaier", "in=e4m3,mul=fp16,acc=bf16,order=tree:3:2"})
    expect_only(parts_of(a, a, inside), accumulation);
  for (const FloatFormat& f : {bf16, fp16, e5m2}) expect_only(parts_of(a, a, "exact", f), output);
}

TEST(Attribution, everything_on_is_the_blocked_product) {
  Random random{8};
  Words words("everything on");
  const auto compare = [&](const OperandStates& a, const OperandStates& b, const std::string& text,
                           const std::vector<std::uint64_t>& want, std::optional<FloatFormat> out) {
    SwitchedProduct product(a, b, parse_inside(text), out);
    const auto got = product.words();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < got.size(); ++o) {
      words.compare(got[o], want[o], a.format.name + " by " + text);
      words.compare(defined_output(a, o / b.rows, b, o % b.rows, parse_inside(text), out, nullptr), want[o],
                    a.format.name + " by " + text + ", defined");
    }
  };
  const auto a_values = draws(random, 5 * 300, 24, 3), b_values = draws(random, 4 * 300, 24, 3);
  for (const auto& [fa, fb, inside] : {std::tuple{"fp8-1x128", "fp8-128x128", "hopper.wgmma.e4m3.fp32"},
                                       {"mxfp8e4m3", "mxfp8e4m3", "fp32,mul=exact"},
                                       {"nvfp4", "nvfp4", "exact"},
                                       {"int8", "int8", "exact"},
                                       {"e4m3-tensor", "fp8-1x128", "bf16,order=pairwise:4"},
                                       {"mxint8", "mxfp4", "exact"},
                                       {"e5m2-row", "e5m2-row", "fp16,mul=fp32"}}) {
    const OperandStates a = operand(fa, a_values, 5), b = operand(fb, b_values, 4);
    BlockDot dot;
    const Inside by = parse_inside(inside);
    if (by.model()) dot.inside = *by.model();
    if (by.unit()) dot.inside = *by.unit();
    std::vector<std::uint64_t> want(20);
    block_gemm(dot, *a.array, *b.array, want);
    compare(a, b, inside, want, {});
    for (std::uint64_t& w : want) w = convert(fp32, bf16, {}, w).code;
    compare(a, b, inside, want, bf16);
  }
  for (const char* inside : {"fp16", "in=e4m3,mul=exact,acc=bf16", "hopper.mma.fp16.fp32"}) {
    const OperandStates a = operand("fp16", a_values, 5), b = operand("fp16", b_values, 4);
    if (!refusal(parse_inside(inside), a.format, b.format).empty()) continue;
    ProductModel model = parse_product_model(inside);
    if (auto* dots = std::get_if<DotModel>(&model)) dots->input = fp16;
    const auto x = words_of(fp16, a.rounded[1]), y = words_of(fp16, b.rounded[1]);
    GemmOperands g;
    g.m = 5, g.n = 4, g.k = 300, g.transpose_b = true;
    g.a = CodeWords(std::span(x)), g.b = CodeWords(std::span(y));
    std::vector<std::uint64_t> want(20);
    gemm<std::uint64_t>(model, g, std::span(want));
    compare(a, b, inside, want, {});
  }
}

TEST(Attribution, parts_add_up_whatever_is_active) {
  Random random{9};
  for (const auto& [fa, fb, inside] : {std::tuple{"nvfp4", "fp8-128x128", "in=e4m3,acc=fp16,order=blocked:8,mul=bf16"},
                                       {"int4/1x32/fp32", "mxint8", "exact"},
                                       {"e4m3-tensor", "mxfp8e5m2", "hopper.wgmma.e4m3-e5m2.fp32@24"},
                                       {"fp16", "e5m2", "fp32,order=interleaved:4"}}) {
    const OperandStates a = operand(fa, draws(random, 2 * 70, 30, 8), 2),
                        b = operand(fb, draws(random, 3 * 70, 24, 4), 3);
    SwitchedProduct product(a, b, parse_inside(inside), e5m2);
    for (Sources active = 0; active <= all_sources; ++active) {
      const Split s = split(product, active);
      EXPECT_EQ(s.not_adding_up(s.forward), 0u) << fa << ' ' << active;
      EXPECT_EQ(s.not_adding_up(s.reverse), 0u) << fa << ' ' << active;
      for (std::size_t i = 0; i < source_count; ++i)
        for (std::size_t o = 0; o < product.count() && !has(active, static_cast<ErrorSource>(i)); ++o)
          EXPECT_TRUE(s.forward[i][o].is_zero() && s.reverse[i][o].is_zero());
    }
    // The reference is the product of the inputs, as rationals.
    cpp_rational want = 0;
    for (std::size_t k = 0; k < 70; ++k) want += rational(a.exact[70 + k]) * rational(b.exact[140 + k]);
    EXPECT_EQ(rational(split(product, all_sources).exact[5]) / product.common(), want);
    double share = 0;
    const Split s = split(product, all_sources);
    for (const auto& part : s.forward) share += measure(part, s, product.common()).share;
    EXPECT_NEAR(share, 1, 1e-12);
  }
}

}  // namespace attribution_test
}  // namespace halfulp::attribution
