// The experiment "attribution": states and parts against rationals, by hand and by random operands, and the report.
#include <halfulp/emulation/block/dot.hpp>
#include <halfulp/emulation/products.hpp>
#include <halfulp/experiments/attribution/attribution.hpp>
#include <halfulp/experiments/attribution/real_sums.hpp>
#include <halfulp/experiments/run/runner.hpp>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace halfulp::attribution {
namespace {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t operator()() {
    std::uint64_t z = (state += 0x9e37'79b9'7f4a'7c15);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }
};

/// Counts code words that differ; prints the first few.
class Words {
 public:
  explicit Words(std::string subject) : subject_(std::move(subject)) {}
  ~Words() {
    EXPECT_EQ(differing_, 0u) << subject_ << ": of " << compared_;
    EXPECT_GT(compared_, 0u) << subject_;
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  void compare(std::uint64_t got, std::uint64_t want, const std::string& where) {
    ++compared_;
    if (got != want && differing_++ < 4) ADD_FAILURE() << std::hex << subject_ << ", " << where << ": got " << got << ", not " << want;
  }

 private:
  std::string subject_;
  std::uint64_t compared_ = 0, differing_ = 0;
};

cpp_rational rational(const Dyadic& d) {
  return d.exponent >= 0 ? cpp_rational(cpp_int(d.n << static_cast<unsigned>(d.exponent))) : cpp_rational(d.n, cpp_int(1) << static_cast<unsigned>(-d.exponent));
}
cpp_rational rational(double x) { return rational(Dyadic(x)); }

/// A number of about so many bits, of either sign.
double draw(Random& random, int bits, int exponents) {
  const auto n = static_cast<double>(random() >> (64 - bits)) + 1;
  return std::ldexp(random() & 1 ? -n : n, static_cast<int>(random() % static_cast<std::uint64_t>(2 * exponents + 1)) - exponents - bits);
}
std::vector<double> draws(Random& random, std::size_t count, int bits, int exponents) {
  std::vector<double> all;
  while (all.size() < count) all.push_back(draw(random, bits, exponents));
  return all;
}

Operand operand(const std::string& format, std::vector<double> values, std::size_t rows = 1) {
  const std::size_t columns = values.size() / rows;
  return make_operand(parse_operand_format(format), {}, std::move(values), rows, columns);
}

constexpr std::size_t scaling = 0, input = 1, products = 2, accumulation = 3, output = 4;

/// Of one output: its parts as rational numbers.
struct Parts {
  std::array<cpp_rational, source_count> forward, reverse, alone;
  cpp_rational exact, total;
};
Parts parts_of(const Operand& a, const Operand& b, const std::string& inside, std::optional<FloatFormat> out = {}, Sources active = all_sources) {
  Product product(a, b, parse_inside(inside), out);
  const Split s = split(product, active);
  EXPECT_EQ(s.not_adding_up(s.forward) + s.not_adding_up(s.reverse), 0u);
  Parts p;
  const cpp_rational common(product.common());
  for (std::size_t i = 0; i < source_count; ++i)
    p.forward[i] = rational(s.forward[i][0]) / common, p.reverse[i] = rational(s.reverse[i][0]) / common, p.alone[i] = rational(s.alone[i][0]) / common;
  p.exact = rational(s.exact[0]) / common, p.total = rational(s.total[0]) / common;
  return p;
}
/// All of the error is this source's, in every order.
void expect_only(const Parts& p, std::size_t source) {
  EXPECT_NE(p.total, 0);
  for (std::size_t i = 0; i < source_count; ++i) {
    EXPECT_EQ(p.forward[i], i == source ? p.total : cpp_rational(0)) << "forward, part " << source_names[i] << " where there is only " << source_names[source];
    EXPECT_EQ(p.reverse[i], p.forward[i]) << "reverse, part " << source_names[i];
    EXPECT_EQ(p.alone[i], p.forward[i]) << "alone, part " << source_names[i];
  }
}

TEST(Attribution, exact_products_are_exact) {
  Random random{1};
  for (const int exponents : {2, 20, 300}) {  // 300: beyond integers of 62 bits
    const auto x = draws(random, 40, 24, exponents), y = draws(random, 40, 24, exponents);
    const ExactRows a(x, 2, 20), b(y, 2, 20);
    cpp_rational want = 0;
    for (std::size_t k = 3; k < 20; ++k) want += rational(x[20 + k]) * rational(y[k]);
    EXPECT_EQ(rational(exact_dot(a, 1, b, 0, 3, 20)), want);
  }
}

TEST(Attribution, exact_products_are_exact_beyond_128_bits) {
  std::vector<double> x(40, 1);
  x[0] = 0x1p-61;
  const ExactRows a(x, 1, 40);
  EXPECT_EQ(rational(exact_dot(a, 0, a, 0, 0, 40)), 39 + rational(0x1p-122));
}

TEST(Attribution, ideal_elements_are_the_nearest) {
  Random random{2};
  for (const char* name : {"mxfp4", "e4m3-tensor", "int8-tensor", "int4full/tensor/fp32", "mxint8", "e5m2-row"}) {
    const OperandFormat f = parse_operand_format(name);
    const BlockElement& e = f.block->element;
    for (int n = 0; n < 300; ++n) {
      // Every third one is a midpoint of neighbours, or an element, exactly.
      const double amax = std::fabs(static_cast<double>(static_cast<float>(draw(random, 24, 5))));
      double v = static_cast<double>(static_cast<float>(draw(random, 24, 3) * amax));
      if (n % 3 == 0) {
        const double one = e.value(static_cast<unsigned>(random() % 100) & ((1u << e.bits()) - 1) & 0x3f), other = e.value(static_cast<unsigned>(random() % 3));
        v = (one + other) / 2;
        if (!std::isfinite(v)) v = 1;
      }
      const double scale_amax = n % 3 == 0 ? e.target() : amax;
      if (std::fabs(v) > scale_amax) v = scale_amax;
      const double got = ideal_element(f, {}, v, e.target(), scale_amax);
      const cpp_rational q = rational(v) * rational(e.target()) / rational(scale_amax);
      for (unsigned code = 0; code < 1u << e.bits(); ++code) {
        const double other = e.value(code);
        if (std::isfinite(other)) {
          EXPECT_LE(abs(rational(got) - q), abs(rational(other) - q)) << name << ": " << v << " of " << scale_amax;
        }
      }
    }
  }
}

TEST(Attribution, parts_by_hand) {
  // E2M1 in blocks of 2, scaled by amax / 6: of (7, 1) the ideal scale is 7/6, and 1 becomes 1 instead of 6/7. So input alone
  // adds 7/6 - 1, and 7 stays.
  const Operand b = operand("fp16", {1, 1});
  const Operand blocks = operand("e2m1/1x2/fp32", {7, 1});
  const Parts p = parts_of(blocks, b, "exact");
  EXPECT_EQ(p.exact, 8);
  EXPECT_EQ(p.alone[input], cpp_rational(1, 6));
  EXPECT_EQ(p.reverse[input], rational(static_cast<double>(static_cast<float>(49 / 6.0))) - 8) << "7 times 7/6 is rounded to fp32, as accumulation is on";
  // The scale is the float next to 7/6: 9786709 / 2^23, and 7 becomes 6 times it, 1 once it. fp32 rounds 7 times it again.
  const cpp_rational s(9786709, 8388608);
  EXPECT_EQ(blocks.scale[0], 9786709 / 8388608.0);
  EXPECT_EQ(p.forward[scaling] + p.forward[input], 7 * s - 8);
  EXPECT_EQ(p.total, rational(static_cast<double>(static_cast<float>(7 * (9786709 / 8388608.0)))) - 8);

  // E2M1 in an MX block by the rule floor: of (5, 1) the scale is 1, and 5 becomes 4. By 5/6, 5 is 6 elements and 1 one.
  std::vector<double> five(32, 0);
  five[0] = 5, five[1] = 1;
  const Parts mx = parts_of(operand("mxfp4", five), operand("fp16", std::vector<double>(32, 1)), "exact", {}, all_sources & ~only(Source::accumulation));
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
  // Scaling: amax and 0 need no rounding, the scale amax / 448 does; elements are 448 and 0 either way. (With accumulation on,
  // the multiplication with the scale in fp32 rounds 448 s back to amax.)
  double amax = 3;
  while (operand("e4m3-tensor", {amax, 0}).scaled[0] != 448) amax += 1;
  expect_only(parts_of(operand("e4m3-tensor", {amax, 0}), operand("e4m3", {1, 1}), "fp64,mul=exact", {}, all_sources & ~only(Source::accumulation)), scaling);
  EXPECT_EQ(parts_of(operand("e4m3-tensor", {amax, 0}), operand("e4m3", {1, 1}), "fp64,mul=exact").total, 0);
  // Input: 448 makes the scale 1, by every rule; sums of few bits.
  for (const char* format : {"e4m3-tensor", "fp8-1x128", "mxfp8e4m3/rceil", "mxfp8e4m3", "e4m3"}) {
    Random random{3};
    auto values = draws(random, 64, 8, 2);
    values[0] = values[32] = 448;
    expect_only(parts_of(operand(format, values), operand("e4m3", std::vector<double>(64, 1)), "fp64,mul=exact"), input);
  }
  // The same with two levels of scales: 4 * 6 * 448 is largest, so the tensor's scale is 4, and the blocks' are 448 and 1.
  std::vector<double> two(32, 0.6875);
  for (int i = 0; i < 16; ++i) two[static_cast<std::size_t>(i)] *= 448;
  two[0] = 6 * 448, two[16] = 6;
  for (double& v : two) v *= 4;
  expect_only(parts_of(operand("nvfp4/divide", two), operand("e4m3", std::vector<double>(32, 1)), "fp64,mul=exact"), input);
  // Products, accumulation, output: of E4M3 numbers.
  Random random{4};
  std::vector<double> small;
  for (int i = 0; i < 64; ++i) small.push_back(std::ldexp(static_cast<double>(random() % 15) + 1, static_cast<int>(random() % 4) - 5));
  const Operand a = operand("e4m3", small);
  for (const char* inside : {"in=e4m3,mul=fp16/toward-zero,acc=fp64", "in=e4m3,mul=bf16/toward-zero,acc=fp64", "in=e4m3,mul=e4m3,acc=fp64"}) {
    const Parts p = parts_of(a, a, inside);
    if (p.total != 0) {
      expect_only(p, products);
    }
    EXPECT_EQ(p.total != 0, std::string(inside) == "in=e4m3,mul=e4m3,acc=fp64") << inside << ": products of 8 bits";
  }
  for (const char* inside : {"fp16,mul=exact", "bf16,mul=exact,order=pairwise:4", "e5m6,mul=exact,order=interleaved:4", "fp16,mul=fp32", "in=e4m3,mul=fp32,acc=e5m6,comp=kahan",
                             "hopper.wgmma.e4m3.fp32", "bf16,mul=fp32,order=blocked:8,comp=neumaier", "in=e4m3,mul=fp16,acc=bf16,order=tree:3:2"})
    expect_only(parts_of(a, a, inside), accumulation);
  for (const FloatFormat& f : {bf16, fp16, e5m2}) expect_only(parts_of(a, a, "exact", f), output);
}

TEST(Attribution, real_sums_of_words_are_the_sums_of_words) {
  Random random{5};
  Words words("sums of reals that are words");
  for (const char* text : {"fp16,mul=exact", "fp32,mul=exact", "bf16,mul=exact,order=pairwise:3", "fp16,mul=exact,order=interleaved:5", "in=e4m3,mul=fp16,acc=fp16",
                           "in=e4m3,mul=bf16,acc=fp32", "in=e4m3,mul=fp32,acc=fp16,comp=kahan", "in=e4m3,mul=fp16,acc=bf16,comp=neumaier,order=blocked:4",
                           "in=e4m3,mul=exact,acc=fp16,promote=fp32,order=blocked:7,round=toward-negative", "in=e4m3,mul=exact,acc=e5m4,round=to-odd,order=tree:3:2",
                           "in=e4m3,mul=exact,acc=bf16,round=nearest-away", "hopper.wgmma.e4m3.fp32", "hopper.wgmma.e4m3.fp16", "blackwell.tcgen05.e4m3.fp32", "ada.mma.e4m3.fp32"})
    for (int n = 0; n < 60; ++n) {
      const std::size_t k = 1 + random() % 70;
      const Inside inside = parse_inside(text);
      const auto x = operand("e4m3", draws(random, k, 8, 5)).rounded[1], y = operand("e4m3", draws(random, k, 8, 5)).rounded[1];
      // A common power of two in target and amax, and a number that cancels, change nothing.
      const double common = n % 2 ? 1 : 0.7, power = n % 3 ? 1 : 0.25;
      std::vector<double> scaled = x;
      for (double& v : scaled) v *= power;
      const RealTerms terms{scaled, y, common, common * power, 1, 1};
      std::uint64_t got, want;
      if (const MatrixUnit* unit = inside.unit()) {
        std::vector<int> ex, ey;
        for (const double v : scaled) ex.push_back(real_exponent(unit->a, v, common, common * power));
        for (const double v : y) ey.push_back(real_exponent(unit->b, v, 1, 1));
        const auto a = words_of(unit->a, x), b = words_of(unit->b, y);
        got = real_sum(*unit, terms, ex, ey), want = mma(*unit, {a, b, {}, {}}, unit->accumulator.zero());
      } else {
        DotModel model = *inside.model();
        model.input = e4m3;
        got = real_sum(model, true, terms), want = dot(model, words_of(e4m3, x), words_of(e4m3, y));
      }
      words.compare(got, want, text + (", of " + std::to_string(k)));
    }
}

TEST(Attribution, real_sums_are_rounded_from_rationals) {
  Random random{6};
  Words sums("sums of reals");
  for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::toward_positive, RoundingMode::to_odd})
    for (const FloatFormat& f : {fp32, fp16, FloatFormat{8, 40, 127}})
      for (int n = 0; n < 40; ++n) {
        Rounding r;
        r.mode = mode;
        DotModel model{f, {}, {f, r}};
        const auto x = draws(random, 30, 24, 3), y = draws(random, 30, 24, 3);
        const RealTerms terms{x, y, 448, 3 + static_cast<double>(n), 6, 7.5};
        const cpp_rational factor = cpp_rational(448) * 6 / (rational(terms.amax_x) * rational(terms.amax_y));
        std::uint64_t want = 0;
        for (std::size_t k = 0; k < x.size(); ++k) {
          const cpp_rational sum = (k ? rational(f.value(want)) : cpp_rational(0)) + rational(x[k]) * rational(y[k]) * factor;
          want = rounded(f, r, numerator(sum), denominator(sum));
        }
        sums.compare(real_sum(model, true, terms), want, std::string(name_of(mode)) + " case " + std::to_string(n));
      }
}

TEST(Attribution, ties_of_reals_and_their_neighbours) {
  // (3 m) / 3 and its neighbours, m halfway between numbers of fp16: doubles cannot tell them.
  Words words("near ties");
  const std::vector<double> one{1, 1};
  DotModel model{fp16, {}, {fp16, {}}};
  for (int n = 2049; n < 2300; n += 2)
    for (const double third : {3.0, 7.0, 1.1})
      for (const int step : {-1, 0, 1}) {
        double x = n * third;
        if (step) x = std::nextafter(x, step * 1e9);
        const RealTerms terms{std::span(&x, 1), std::span(one).first(1), 1, third, 1, 1};
        const cpp_rational q = rational(x) / rational(third);
        const std::uint64_t want = rounded(fp16, {}, numerator(q), denominator(q));
        words.compare(rounded_term(fp16, {}, terms, 0), want, std::to_string(n));
        // 2048 more, where fp16 is twice as coarse.
        const std::vector<double> both{2048 * third, x};
        const cpp_rational sum = q + 2048;
        words.compare(real_sum(model, true, {both, one, 1, third, 1, 1}), rounded(fp16, {}, numerator(sum), denominator(sum)), "sum of " + std::to_string(n));
      }
}

TEST(Attribution, units_cut_reals_off) {
  Random random{7};
  const MatrixUnit& unit = find_unit("hopper.wgmma.e4m3.fp32");
  Words sums("fused sums of reals");
  for (int n = 0; n < 300; ++n) {
    const auto x = draws(random, 32, 24, 6), y = draws(random, 32, 24, 6);
    const RealTerms terms{x, y, 448, 3 + static_cast<double>(n), 6, 7.5};
    std::vector<int> ex, ey;
    std::vector<cpp_rational> p;
    int emax = -1000;
    for (std::size_t k = 0; k < 32; ++k) {
      const auto exponent = [](const cpp_rational& q) {
        int e = -6;
        while (abs(q) >= rational(std::ldexp(1, e + 1))) ++e;
        return e;
      };
      const cpp_rational u = rational(x[k]) * 448 / rational(terms.amax_x), v = rational(y[k]) * 6 / rational(terms.amax_y);
      ex.push_back(real_exponent(e4m3, x[k], 448, terms.amax_x)), ey.push_back(real_exponent(e4m3, y[k], 6, terms.amax_y));
      EXPECT_EQ(ex[k], exponent(u));
      EXPECT_EQ(ey[k], exponent(v));
      p.push_back(u * v);
      emax = std::max(emax, ex[k] + ey[k]);
    }
    cpp_int sum = 0;
    for (const cpp_rational& q : p) {
      const cpp_rational t = q / rational(std::ldexp(1, emax - 13));
      sum += cpp_int(numerator(t) / denominator(t));  // toward zero
    }
    Rounding cut;
    cut.mode = RoundingMode::toward_zero;
    const FloatFormat kept = unit.sum.kept;
    const std::uint64_t want = rounded(kept, cut, sum, 1, emax - 13) << (23 - kept.fraction_bits);
    sums.compare(real_sum(unit, terms, ex, ey), sum == 0 ? 0 : want, "case " + std::to_string(n));
  }
}

TEST(Attribution, everything_on_is_the_blocked_product) {
  Random random{8};
  Words words("everything on");
  const auto compare = [&](const Operand& a, const Operand& b, const std::string& text, const std::vector<std::uint64_t>& want, std::optional<FloatFormat> out) {
    Product product(a, b, parse_inside(text), out);
    const auto got = product.words();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t o = 0; o < got.size(); ++o) {
      words.compare(got[o], want[o], a.format.name + " by " + text);
      words.compare(defined_output(a, o / b.rows, b, o % b.rows, parse_inside(text), out, nullptr), want[o], a.format.name + " by " + text + ", defined");
    }
  };
  const auto a_values = draws(random, 5 * 300, 24, 3), b_values = draws(random, 4 * 300, 24, 3);
  for (const auto& [fa, fb, inside] : {std::tuple{"fp8-1x128", "fp8-128x128", "hopper.wgmma.e4m3.fp32"}, {"mxfp8e4m3", "mxfp8e4m3", "fp32,mul=exact"},
                                       {"nvfp4", "nvfp4", "exact"}, {"int8", "int8", "exact"}, {"e4m3-tensor", "fp8-1x128", "bf16,order=pairwise:4"},
                                       {"mxint8", "mxfp4", "exact"}, {"e5m2-row", "e5m2-row", "fp16,mul=fp32"}}) {
    const Operand a = operand(fa, a_values, 5), b = operand(fb, b_values, 4);
    BlockDot dot;
    const Inside by = parse_inside(inside);
    if (by.model()) dot.inside = *by.model();
    dot.unit = by.unit();
    std::vector<std::uint64_t> want(20);
    block_gemm(dot, *a.array, *b.array, want);
    compare(a, b, inside, want, {});
    for (std::uint64_t& w : want) w = convert(fp32, bf16, {}, w).code;
    compare(a, b, inside, want, bf16);
  }
  for (const char* inside : {"fp16", "in=e4m3,mul=exact,acc=bf16", "hopper.mma.fp16.fp32"}) {
    const Operand a = operand("fp16", a_values, 5), b = operand("fp16", b_values, 4);
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
  for (const auto& [fa, fb, inside] : {std::tuple{"nvfp4", "fp8-128x128", "in=e4m3,acc=fp16,order=blocked:8,mul=bf16"}, {"int4/1x32/fp32", "mxint8", "exact"},
                                       {"e4m3-tensor", "mxfp8e5m2", "hopper.wgmma.e4m3-e5m2.fp32@24"}, {"fp16", "e5m2", "fp32,order=interleaved:4"}}) {
    const Operand a = operand(fa, draws(random, 2 * 70, 30, 8), 2), b = operand(fb, draws(random, 3 * 70, 24, 4), 3);
    Product product(a, b, parse_inside(inside), e5m2);
    for (Sources active = 0; active <= all_sources; ++active) {
      const Split s = split(product, active);
      EXPECT_EQ(s.not_adding_up(s.forward), 0u) << fa << ' ' << active;
      EXPECT_EQ(s.not_adding_up(s.reverse), 0u) << fa << ' ' << active;
      for (std::size_t i = 0; i < source_count; ++i)
        for (std::size_t o = 0; o < product.count() && !has(active, static_cast<Source>(i)); ++o) EXPECT_TRUE(s.forward[i][o].is_zero() && s.reverse[i][o].is_zero());
    }
    // The reference is the product of what came in: rationals, without any of this.
    cpp_rational want = 0;
    for (std::size_t k = 0; k < 70; ++k) want += rational(a.exact[70 + k]) * rational(b.exact[140 + k]);
    EXPECT_EQ(rational(split(product, all_sources).exact[5]) / product.common(), want);
    double share = 0;
    const Split s = split(product, all_sources);
    for (const auto& part : s.forward) share += measure(part, s, product.common()).share;
    EXPECT_NEAR(share, 1, 1e-12);
  }
}

/// The report of an experiment set so.
Json report_of(const std::vector<std::string>& settings) {
  const Experiment& experiment = find_experiment("attribution");
  Config config(experiment.parameters());
  for (const char* small : {"rows=2", "columns=2", "terms=64", "lengths=64", "outliers=1"}) config.set(small);
  for (const std::string& setting : settings) config.set(setting);
  Trace trace;
  Report report("attribution", "test", config);
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  return report.to_json();
}
std::string refused(const std::vector<std::string>& settings) {
  try {
    report_of(settings);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

/// A float64 matrix as NumPy writes it.
std::string npy(const std::string& name, const std::string& shape, const std::vector<double>& values) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  header.back() = '\n';
  const std::string path = testing::TempDir() + "attribution_" + name + ".npy";
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\x00' << static_cast<char>(header.size()) << '\x00' << header;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 8));
  return path;
}

TEST(Attribution, reads_matrices) {
  const std::string a = npy("a", "(2, 3)", {1, 2, 3, 4, 5, 6}), b = npy("b", "(3, 2)", {1, 0, 0, 1, 1, 1}), row = npy("row", "(6,)", {1, 2, 3, 4, 5, 6});
  const std::string nan = npy("nan", "(1, 3)", {1, std::nan(""), 2}), empty = npy("empty", "(0, 3)", {});
  const Json report = report_of({"a=" + a, "b=" + b, "formats=fp16", "accumulators=exact", "output=none"});
  EXPECT_EQ(report["status"], "pass");
  for (const Json& row_of : report["results"]["sources"]["rows"]) EXPECT_EQ(row_of[3], 0.0) << row_of;
  EXPECT_EQ(report["results"]["lengths"]["rows"].size(), 1u) << "the files' own";
  EXPECT_EQ(report["results"]["lengths"]["rows"][0][2], 3);
  EXPECT_EQ(refused({"a=" + a, "b=" + a}), "a and b do not multiply: 2 x 3 times 2 x 3; the columns of a are to be the rows of b");
  EXPECT_EQ(refused({"a=" + row}), "a: " + row + " has 1 axes; a matrix has 2");
  EXPECT_EQ(refused({"b=" + empty}), "b: " + empty + " has the shape 0 x 3: it is empty");
  EXPECT_EQ(refused({"a=" + nan}), "a: " + nan + " holds NaN at row 0, column 1; accepted are finite values");
  EXPECT_EQ(refused({"a=" + a, "outlier=10", "outlier_channel=3"}), "outlier_channel: a has the channels 0 to 2, not 3");
  EXPECT_EQ(refused({"formats=fp16", "outlier=1e9"}), "A holds values beyond the range of fp16, which has no scale");
  EXPECT_NE(refused({"formats=mxfp9"}).find("did you mean"), std::string::npos);
  EXPECT_NE(refused({"formats=int8-affine"}).find("zero point"), std::string::npos);
  EXPECT_NE(refused({"accumulators=fp17"}).find("accumulators: "), std::string::npos);
  EXPECT_NE(refused({"accumulators=fp16,round=stochastic"}).find("stochastically"), std::string::npos);
  EXPECT_NE(refused({"accumulators=exact@0"}).find("number of products"), std::string::npos);
  EXPECT_NE(refused({"accumulators=blackwell.tcgen05.mxe4m3.fp32"}).find("takes scales itself"), std::string::npos);
  EXPECT_NE(refused({"output=bf17"}).find("or none"), std::string::npos);
  EXPECT_NE(refused({"rows=1024", "columns=1024", "terms=65536"}).find("at most"), std::string::npos);
  for (const std::string& path : {a, b, row, nan, empty}) std::remove(path.c_str());
}

TEST(Attribution, units_defined_for_words_alone_have_no_reverse) {
  const Json report = report_of({"formats=e4m3-tensor", "accumulators=hopper.mma.e4m3.fp32", "output=bf16"});
  EXPECT_EQ(report["status"], "pass");
  EXPECT_NE(report["results"]["configurations"]["rows"][0][5], "");
  for (const Json& row : report["results"]["sources"]["rows"])
    if (row[2] == "unit") {
      EXPECT_GT(row[3], 0.0);
      EXPECT_TRUE(row[8].is_null() && row[12].is_null());
    }
  EXPECT_NE(refused({"formats=e4m3-tensor", "accumulators=hopper.mma.e4m3.fp32", "sources=accumulation"}), "accepted");
  EXPECT_NE(refused({"formats=int8", "accumulators=hopper.wgmma.e4m3.fp32"}).find("integers are summed exactly"), std::string::npos);
}

}  // namespace
}  // namespace halfulp::attribution
