// Real numbers in "attribution", against rationals: exact products, ideal elements, sums by models and units.
#include "attribution.hpp"

#include <halfulp/experiments/attribution/product.hpp>

namespace halfulp::attribution {
namespace attribution_reals_test {

TEST(AttributionReals, exact_products_are_exact) {
  Random random{1};
  for (const int exponents : {2, 20, 300}) {  // 300: beyond integers of 62 bits
    const auto x = draws(random, 40, 24, exponents), y = draws(random, 40, 24, exponents);
    const ExactRows a(x, 2, 20), b(y, 2, 20);
    cpp_rational want = 0;
    for (std::size_t k = 3; k < 20; ++k) want += rational(x[20 + k]) * rational(y[k]);
    EXPECT_EQ(rational(exact_dot(a, 1, b, 0, 3, 20)), want);
  }
}

TEST(AttributionReals, exact_products_are_exact_beyond_128_bits) {
  std::vector<double> x(40, 1);
  x[0] = 0x1p-61;
  const ExactRows a(x, 1, 40);
  EXPECT_EQ(rational(exact_dot(a, 0, a, 0, 0, 40)), 39 + rational(0x1p-122));
}

TEST(AttributionReals, ideal_elements_are_the_nearest) {
  Random random{2};
  for (const char* name : {"mxfp4", "e4m3-tensor", "int8-tensor", "int4full/tensor/fp32", "mxint8", "e5m2-row"}) {
    const OperandFormat f = parse_operand_format(name);
    const BlockElement& e = f.block->element;
    for (int n = 0; n < 300; ++n) {
      // Every third one is a midpoint of neighbours, or an element, exactly.
      const double amax = std::fabs(static_cast<double>(static_cast<float>(draw(random, 24, 5))));
      double v = static_cast<double>(static_cast<float>(draw(random, 24, 3) * amax));
      if (n % 3 == 0) {
        const double one = e.value(static_cast<unsigned>(random() % 100) & ((1u << e.bits()) - 1) & 0x3f),
                     other = e.value(static_cast<unsigned>(random() % 3));
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

TEST(AttributionReals, real_sums_of_words_are_the_sums_of_words) {
  Random random{5};
  Words words("sums of reals that are words");
  for (const char* text :
       {"fp16,mul=exact", "fp32,mul=exact", "bf16,mul=exact,order=pairwise:3", "fp16,mul=exact,order=interleaved:5",
        "in=e4m3,mul=fp16,acc=fp16", "in=e4m3,mul=bf16,acc=fp32", "in=e4m3,mul=fp32,acc=fp16,comp=kahan",
        "in=e4m3,mul=fp16,acc=bf16,comp=neumaier,order=blocked:4",
        "in=e4m3,mul=exact,acc=fp16,promote=fp32,order=blocked:7,round=toward-negative",
        "in=e4m3,mul=exact,acc=e5m4,round=to-odd,order=tree:3:2", "in=e4m3,mul=exact,acc=bf16,round=nearest-away",
        "hopper.wgmma.e4m3.fp32", "hopper.wgmma.e4m3.fp16", "blackwell.tcgen05.e4m3.fp32", "ada.mma.e4m3.fp32"})
    for (int n = 0; n < 60; ++n) {
      const std::size_t k = 1 + random() % 70;
      const Inside inside = parse_inside(text);
      const auto x = operand("e4m3", draws(random, k, 8, 5)).rounded[1],
                 y = operand("e4m3", draws(random, k, 8, 5)).rounded[1];
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

TEST(AttributionReals, real_sums_are_rounded_from_rationals) {
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
          const cpp_rational sum = (k ? rational(f.value(want)) : cpp_rational(0)) +
                                   rational(x[k]) * rational(y[k]) * factor;
          want = rounded(f, r, numerator(sum), denominator(sum));
        }
        sums.compare(real_sum(model, true, terms), want, std::string(name_of(mode)) + " case " + std::to_string(n));
      }
}

TEST(AttributionReals, ties_of_reals_and_their_neighbours) {
  // (3 m) / 3 and its neighbours, with m halfway between numbers of fp16: doubles cannot tell them apart.
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
        words.compare(real_sum(model, true, {both, one, 1, third, 1, 1}),
                      rounded(fp16, {}, numerator(sum), denominator(sum)), "sum of " + std::to_string(n));
      }
}

TEST(AttributionReals, units_cut_reals_off) {
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
      const cpp_rational u = rational(x[k]) * 448 / rational(terms.amax_x),
                         v = rational(y[k]) * 6 / rational(terms.amax_y);
      ex.push_back(real_exponent(e4m3, x[k], 448, terms.amax_x)),
          ey.push_back(real_exponent(e4m3, y[k], 6, terms.amax_y));
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

}  // namespace attribution_reals_test
}  // namespace halfulp::attribution
