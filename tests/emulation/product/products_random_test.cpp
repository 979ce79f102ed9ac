// Products by random models: any formats, orders, stages and settings, operands whose products lie around the ends of a
// stage's range, or anywhere. Every output equals the scalar definition's, on this CPU's best instruction set and one
// other. 40,000 models, or, in the exhaustive run, a million.
#include "products.hpp"

#include <hwy/targets.h>

#include <cmath>
#include <iterator>

namespace halfulp {
namespace products_random_test {

using check::Random, check::Matrices, check::expected;

/// Draws what models are made of.
struct Draws {
  Random random;

  bool chance(int of, int in) { return static_cast<int>(random() % static_cast<unsigned>(in)) < of; }
  int between(int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)); }
  template <std::size_t n>
  std::string one_of(const char* const (&names)[n]) {
    return names[random() % n];
  }

  std::string format() {
    static constexpr const char* usual[] = {"bf16", "fp16", "e4m3", "e5m2", "e3m4", "e2m3", "e3m2", "e2m1", "e8m3"};
    static constexpr const char* others[] = {
        "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz", "p3109k8p3", "e6m9", "e7m8", "e4m11", "e5m10fn",    "e8m7fn",  "e2m5",
        "e6m1",     "fp32",     "tf32",        "e8m8",      "e3m0", "e1m2", "e2m9",  "e2m9finite", "e8m7b120"};
    return chance(2, 3) ? one_of(usual) : one_of(others);
  }
  std::string mode() {
    static constexpr const char* modes[] = {"nearest-even",    "nearest-even",    "toward-zero",
                                            "toward-positive", "toward-negative", "nearest-away",
                                            "nearest-to-zero", "to-odd",          "stochastic"};
    return one_of(modes);
  }
  std::string flush() {
    static constexpr const char* kinds[] = {"none", "inputs", "outputs", "both"};
    return one_of(kinds);
  }

  std::string model() {
    static constexpr const char* orders[] = {"sequential", "blocked:1", "blocked:3", "blocked:17",    "pairwise",
                                             "pairwise:3", "tree:2",    "tree:3:2",  "interleaved:2", "interleaved:7"};
    std::string text = "in=" + format() + ",acc=" + format();
    if (chance(1, 2)) text = chance(1, 2) ? "bf16" : format();
    else if (chance(1, 3)) text += ",mul=" + (chance(1, 2) ? "exact" : format());
    if (chance(1, 5)) text += ",b=" + format();
    if (chance(1, 5)) text += ",promote=" + (chance(3, 4) ? "fp32" : format()) + (chance(1, 6) ? '/' + mode() : "");
    if (chance(1, 5)) text += ",out=" + format() + (chance(1, 4) ? '/' + mode() : "");
    if (chance(1, 2)) text += ",order=" + one_of(orders);
    if (chance(1, 2)) text += ",round=" + mode() + ",seed=5";
    if (chance(1, 2)) text += ",flush=" + flush();
    if (chance(1, 5)) text += ",tininess=before";
    if (chance(1, 4)) text += ",overflow=saturate";
    if (chance(1, 12)) text += chance(1, 2) ? ",comp=kahan" : ",comp=neumaier";
    if (chance(1, 8)) text += chance(1, 2) ? ",nan=cuda" : ",nan=propagate";
    return text;
  }

  /// Elements near 2^exponent: powers of two or next to one, numbers with all their bits, seldom a special one.
  void fill(std::vector<std::uint64_t>& codes, const FloatFormat& f, int exponent, bool specials) {
    const int spread = chance(1, 2) ? 0 : between(0, 8);
    const bool few_bits = chance(1, 2);
    for (std::uint64_t& code : codes) {
      const double bits = few_bits ? 1 : 1 + static_cast<double>(random() >> 11) * 0x1p-53;
      code = check::rounded(f, std::ldexp(bits, exponent + between(-spread, spread)));
      if (few_bits && chance(1, 2)) code += f.magnitude(code) < f.max_finite();
      if (!f.is_finite(code)) code = f.max_finite();
      if (specials && chance(1, 20)) code = random() & f.code_mask();
      if (chance(1, 12) && f.has_zero) code = f.zero(false);
      if (chance(1, 2) && f.is_signed && (!f.is_zero(code) || f.has_negative_zero())) code ^= f.sign_mask();
    }
  }
};

TEST(ProductsRandom, EveryOutputIsTheDefinitions) {
  Draws draw{Random{29}};
  const std::vector<std::int64_t> sets = hwy::SupportedAndGeneratedTargets();
  std::size_t models = 0, compared = 0, by_vectors = 0;
  while (models < (check::exhaustive() ? 1'000'000u : 40'000u)) {
    const std::string text = draw.model();
    DotModel model;
    try {
      model = std::get<DotModel>(parse_product_model(text));
    } catch (const std::invalid_argument&) { continue; }  // said in one line: product_model_test
    ++models;
    const FloatFormat &a = model.input, &b = model.second(), &sum = model.accumulator.format,
                      &of_products = model.product ? model.product->format : sum,
                      &end = draw.chance(1, 2) ? sum : of_products;
    const int bits = end.precision(),
              sizes[] = {draw.between(1, 9), draw.between(1, 33), draw.between(1, draw.chance(1, 2) ? 3 : 40)};
    const int exponents[] = {0, end.emin() + draw.between(-3, 2 * bits), end.emax() - draw.between(-1, bits),
                             draw.between(-129, -110)};
    const int exponent = exponents[draw.random() % std::size(exponents)];
    const bool specials = draw.chance(1, 4), addend = draw.chance(1, 3);
    Random unused{1};
    Matrices x(model, static_cast<std::size_t>(sizes[0]), static_cast<std::size_t>(sizes[1]),
               static_cast<std::size_t>(sizes[2]), check::Kind::normal, addend, unused);
    const int of_a = std::min(std::max({exponent / 2, a.emin() - a.fraction_bits, exponent - b.emax()}),
                              std::max(a.emax(), a.emin() - a.fraction_bits));
    draw.fill(x.a, a, of_a, specials), draw.fill(x.b, b, exponent - of_a, specials);
    draw.fill(x.c, model.result(), draw.chance(1, 2) ? exponent : model.result().emin(), specials);
    const std::vector<std::uint64_t> want = expected(model, x, 70);
    for (const std::int64_t set : {std::int64_t{0}, sets[draw.random() % sets.size()]}) {
      hwy::SetSupportedTargetsForTest(set);
      std::vector<std::uint64_t> d(want.size(), 77);
      gemm(model, x.operands(), std::span(d), 70);
      by_vectors += has_vector_products(model) ? d.size() : 0;
      compared += d.size();
      for (std::size_t i = 0; i < d.size(); ++i)
        ASSERT_EQ(d[i], want[i]) << text << ", " << x.m << 'x' << x.n << 'x' << x.k << ", products of 2^" << exponent
                                 << ", output " << i << ", " << (set ? hwy::TargetName(set) : "best instruction set");
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  EXPECT_GT(by_vectors, compared / 4);
}

}  // namespace products_random_test
}  // namespace halfulp
