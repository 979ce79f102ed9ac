// What a watched training notes: where the error of products comes from, magnitudes of gradients, which steps count.
#include "policy_cases.hpp"

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/training/runs/model_report.hpp>

namespace model_watch_test {

using namespace check;
using halfulp::trainings::ModelWatch;

std::vector<ProductErrors> errors_of(const Policy& policy, const std::vector<Case>& cases) {
  ModelWatch watch(1);
  PolicyNumerics numerics(policy, 1, &watch);
  watch.begin_step(0, false), numerics.begin_step(0);
  for (const Case& x : cases) product_of(numerics, x);
  watch.end_step();
  return watch.counted().at(0).products;
}

TEST(ProductErrors, OfRoundedOperandsOfSumsAndOfTheResult) {
  // 1.0625 is rounded to 1 and 300 to 288: y = 601.0625, z = 577. bf16 has 576 and 580.
  Case x(fc1, Product::forward, 1, 1, 2);
  x.a = {1.0625f, 300}, x.b = {1, 2};
  const auto of = [&](const std::string& accumulate, const std::string& result) {
    const auto all = errors_of(policy_of(R"("rules": [{"operators": "all", "operands": "e4m3", "accumulate": ")" +
                                         accumulate + R"(", "results": ")" + result + R"("}])"),
                               {x});
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  };
  const double y = 601.0625, lost = 577 - y;
  const ProductErrors exact = of("acc=fp32", "fp32"), sums = of("acc=bf16", "fp32"), result = of("acc=fp32", "bf16");
  for (const ProductErrors& e : {exact, sums, result}) {
    EXPECT_EQ(e.name, "fc1");
    EXPECT_EQ(e.elements, 1u);
    EXPECT_EQ(e.signal, y * y);
    EXPECT_EQ(e.quantization, lost * lost);
    EXPECT_EQ(e.largest_a, 300);
    EXPECT_EQ(e.largest_b, 2);
  }
  EXPECT_EQ(exact.error, lost * lost);
  EXPECT_EQ(exact.accumulation + exact.rounding, 0);
  EXPECT_EQ(exact.share(exact.quantization), 1);
  EXPECT_NEAR(exact.sqnr_db(), 20 * std::log10(y / -lost), 1e-12);
  EXPECT_EQ(sums.accumulation, 1);
  EXPECT_EQ(sums.rounding, 0);
  EXPECT_EQ(sums.error, (lost - 1) * (lost - 1));
  EXPECT_EQ(result.accumulation, 0);
  EXPECT_EQ(result.rounding, 1);
  EXPECT_EQ(result.largest_d, 576);
  EXPECT_EQ(exact.bounded, 1u);
  EXPECT_EQ(sums.bounded, 0u);
}

/// Energies in double from rows of both operands, with every element measured.
TEST(ProductErrors, AreThoseOfEveryElementInEveryLayoutAndWithScales) {
  for (const char* const format : {"fp32", "bf16", "mxfp8e4m3", "fp8-1x128", "e4m3-tensor", "nvfp4"}) {
    const Policy policy = policy_of(R"("rules": [{"operators": "all", "operands": ")" + std::string(format) +
                                    R"(", "results": {"activation": "bf16"}}])");
    for (const Product which : all_products) {
      Case x(fc1, which, 7, 9, 150);
      if (which == Product::forward) x.bias = numbers(9, 5);
      const std::vector<float> d = product_of(policy, x);
      const ProductErrors e = errors_of(policy, {x}).at(0);
      std::vector<float> a = x.rows_of_a(), b = x.rows_of_b(), za(a.size()), zb(b.size());
      const Storage storage = parse_storage(Json(format), "test");
      if (const BlockFormat* const block = storage.block()) {
        quantize_block_values(*block, {}, a, x.m, x.k, za, {});
        quantize_block_values(*block, {}, b, x.n, x.k, zb, {});
      } else {
        for (std::size_t i = 0; i < a.size(); ++i) za[i] = rounded(storage, a[i]);
        for (std::size_t i = 0; i < b.size(); ++i) zb[i] = rounded(storage, b[i]);
      }
      double signal = 0, error = 0, quantization = 0;
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < x.n; ++j) {
          double y = x.bias.empty() ? 0 : static_cast<double>(x.bias[j]), z = y;
          for (std::size_t l = 0; l < x.k; ++l) {
            y += static_cast<double>(a[i * x.k + l]) * static_cast<double>(b[j * x.k + l]);
            z += static_cast<double>(za[i * x.k + l]) * static_cast<double>(zb[j * x.k + l]);
          }
          const double stored = static_cast<double>(d[i * x.n + j]);
          signal += y * y, error += (stored - y) * (stored - y), quantization += (z - y) * (z - y);
        }
      EXPECT_EQ(e.elements, x.m * x.n);
      EXPECT_NEAR(e.signal, signal, 1e-9 * signal) << format;
      EXPECT_NEAR(e.error, error, 1e-4 * error + 1e-12 * signal) << format << ' ' << name_of(which);
      EXPECT_NEAR(e.quantization, quantization, 1e-4 * quantization + 1e-12 * signal)
          << format << ' ' << name_of(which);
      EXPECT_EQ(e.bounded, x.m * x.n) << format;
      EXPECT_EQ(e.beyond_bound, 0u) << format << ' ' << name_of(which);
      EXPECT_GE(e.rounding, 0);
      EXPECT_EQ(e.rounding > 0, which == Product::forward) << format;
    }
  }
}

TEST(ProductErrors, OfSeveralProductsAtOnceAreThoseOfEach) {
  const Policy policy = policy_of(R"("rules": [{"operators": "all", "operands": "e4m3", "accumulate": "acc=bf16"}])");
  const Site scores{OperatorKind::attention_scores, "scores"};
  const std::size_t count = 3, m = 4, n = 5, k = 6;
  const std::vector<float> a = numbers(count * m * k, 1), b = numbers(count * n * k, 2);
  const auto watched = [&](bool together) {
    ModelWatch watch(1);
    PolicyNumerics numerics(policy, 1, &watch);
    watch.begin_step(0, false);
    FloatOperands x;
    x.m = m, x.n = n, x.k = k, x.a = a, x.b = b, x.transpose_b = true;
    std::vector<float> d(count * m * n);
    if (together) numerics.products(scores, Product::forward, count, x, d);
    else
      for (std::size_t i = 0; i < count; ++i)
        numerics.product(scores, Product::forward, x.nth(i), {}, std::span(d).subspan(i * m * n, m * n));
    watch.end_step();
    return watch.counted().at(0).products.at(0);
  };
  const ProductErrors one = watched(true), each = watched(false);
  EXPECT_EQ(one.elements, count * m * n);
  EXPECT_EQ(one.elements, each.elements);
  EXPECT_NEAR(one.error, each.error, 1e-12 * each.error);
  EXPECT_NEAR(one.accumulation, each.accumulation, 1e-12 * each.accumulation);
  EXPECT_GT(one.accumulation, 0);
}

TEST(ProductErrors, SamplesOtherRowsOfEachHead) {
  // Row 0 of each of 64 heads is zero, as the first row of causal scores can be.
  const Policy policy = policy_of(R"("rules": [{"operators": "all", "operands": "e2m1"}])");
  const std::size_t count = 64, m = 32, n = 100, k = 8;
  std::vector<float> a = numbers(count * m * k, 1);
  const std::vector<float> b = numbers(count * n * k, 2);
  for (std::size_t i = 0; i < count; ++i) std::fill_n(a.begin() + static_cast<std::ptrdiff_t>(i * m * k), k, 0.0f);
  ModelWatch watch(1);
  PolicyNumerics numerics(policy, 1, &watch);
  watch.begin_step(0, false);
  FloatOperands x;
  x.m = m, x.n = n, x.k = k, x.a = a, x.b = b, x.transpose_b = true;
  std::vector<float> d(count * m * n);
  numerics.products({OperatorKind::attention_scores, "scores"}, Product::forward, count, x, d);
  watch.end_step();
  const ProductErrors& e = watch.counted().at(0).products.at(0);
  EXPECT_EQ(e.elements, 16u * 64u);
  EXPECT_GT(e.error, 0);
}

TEST(ProductErrors, LeavesOutInfAndFindsSumsBeyondTheBound) {
  Case x(fc1, Product::forward, 2, 1, 2);
  x.a = {1, 2, 70000, 0}, x.b = {1, 1};
  const ProductErrors e = errors_of(policy_of(R"("rules": [{"operators": "all", "operands": "fp16"}])"), {x}).at(0);
  EXPECT_EQ(e.elements, 1u);
  EXPECT_EQ(e.non_finite, 1u);
  // A sum that is off by 2^-10 of its terms.
  PolicyOperand a, b;
  a.elements = std::span(x.a).first(2), b.elements = x.b;
  FloatOperands operands;
  operands.m = 1, operands.n = 1, operands.k = 2, operands.a = a.elements, operands.b = b.elements;
  operands.transpose_b = true;
  const ProductModel fp32_sums = parse_product_model("fp32");
  for (const float off : {0.0f, 3 * 0x1p-10f}) {
    const std::vector<float> d{3 + off};
    ProductMeter meter;
    meter.see({fc1, Product::forward, 1, operands, a, b, {}, d, d, fp32_sums});
    EXPECT_EQ(meter.take().at(0).beyond_bound, off ? 1u : 0u);
  }
}

TEST(ProductErrors, OfAStraightThroughGradientThatIsCutAreOfItsResult) {
  const Policy policy = policy_of(R"("rules": [{"operators": "linear", "straight_through": true, "operands":
    {"activation": {"format": "e4m3-tensor", "amax": 0.1}, "weight": "e4m3-tensor"}}])");
  const Case forward(fc1, Product::forward, 6, 5, 8);
  Case back(fc1, Product::to_input, 6, 8, 5);
  back.b = forward.b;
  const std::vector<ProductErrors> all = errors_of(policy, {forward, back});
  EXPECT_GT(all.at(1).rounding, 0);  // magnitudes above amax have no gradient
  EXPECT_EQ(all.at(1).bounded, 48u);
  EXPECT_EQ(all.at(1).beyond_bound, 0u);
}

TEST(ModelWatch, ChangesNoBitAndCountsEveryFewSteps) {
  for (const char* const name : {"mxfp4", "fp8-hybrid", "bf16-sr", "strict-fp16"}) {
    const Policy policy = find_policy(name);
    ModelWatch watch(3);
    PolicyNumerics plain(policy, 1), watched(policy, 1, &watch);
    for (std::uint64_t step = 0; step < 7; ++step) {
      EXPECT_EQ(watch.begin_step(step, false), step % 3 == 0);
      plain.begin_step(step), watched.begin_step(step);
      for (const Product which : all_products) {
        const Case x(fc1, which, 4, 6, 40, step);
        EXPECT_EQ(bits(product_of(plain, x)), bits(product_of(watched, x))) << name;
      }
      plain.end_step(), watched.end_step(), watch.end_step();
    }
    ASSERT_EQ(watch.counted().size(), 3u);
    EXPECT_EQ(watch.counted().at(2).step, 6u);
    EXPECT_EQ(watch.counted().at(1).products.size(), 3u);
  }
}

TEST(ModelWatch, KeepsAtMostSixtyFourStepsEvenlySpaced) {
  const Policy policy = find_policy("fp32");
  ModelWatch watch(2);
  PolicyNumerics numerics(policy, 1, &watch);
  for (std::uint64_t step = 0; step < 1000; ++step) {
    watch.begin_step(step, false), numerics.begin_step(step);
    product_of(numerics, Case(fc1, Product::forward, 1, 1, 1));
    watch.end_step();
  }
  EXPECT_EQ(watch.every(), 16u);
  EXPECT_EQ(watch.counted().size(), 63u);
  for (std::size_t i = 0; i < watch.counted().size(); ++i) EXPECT_EQ(watch.counted()[i].step, 16 * i);
  EXPECT_FALSE(watch.begin_step(16, true));  // an evaluation
}

TEST(ModelWatch, CountsMagnitudesOfGradientsBeforeTheyAreRounded) {
  const Policy policy = find_policy("pure-fp16");
  ModelWatch watch(1);
  PolicyNumerics numerics(policy, 1, &watch);
  watch.begin_step(0, false);
  std::vector<float> gradient{
      0,        -0.0f,     1,           -1.99f,          2,
      0x1p-30f, 0x1p-149f, 0x1.8p-140f, 0x1.fffffep127f, std::numeric_limits<float>::infinity()};
  numerics.cast(fc1, Role::gradient_of_weight, gradient);
  EXPECT_EQ(gradient[5], 0);
  std::vector<float> activation{1};
  numerics.cast(fc1, Role::activation, activation);
  watch.end_step();
  ASSERT_EQ(watch.counted().at(0).gradients.size(), 1u);
  const auto& row = watch.counted()[0].gradients[0];
  EXPECT_EQ(row.zeros, 2u);
  EXPECT_EQ(row.non_finite, 1u);
  std::map<int, std::uint64_t> counts;
  for (std::size_t i = 0; i < row.counts.size(); ++i)
    if (row.counts[i]) counts[static_cast<int>(i) + trainings::lowest_exponent] = row.counts[i];
  EXPECT_EQ(counts, (std::map<int, std::uint64_t>{{-149, 1}, {-140, 1}, {-30, 1}, {0, 2}, {1, 1}, {127, 1}}));
}

TEST(ModelReport, SaysTheWeakestProductAndHoldsItsClaim) {
  Case x(fc1, Product::forward, 8, 8, 32);
  const Policy policy = policy_of(R"("rules": [{"operators": "all", "operands": "e2m1", "results": "fp16"}])");
  ModelWatch watch(1);
  PolicyNumerics numerics(policy, 1, &watch);
  watch.begin_step(0, false);
  product_of(numerics, x);
  watch.end_step();
  trainings::ModelFacts facts;
  facts.model = "Model", facts.policy = "mine", facts.definition = policy.json, facts.seed = 7, facts.steps = 1;
  facts.calls = Json::parse(R"([["linear", "fc1", 2, true], ["cos", "", 3, false]])");
  facts.updates = facts.losses = facts.births = facts.events = Json::array();
  const Json report = trainings::model_report(&watch, facts, "test").to_json();
  EXPECT_EQ(report.at("experiment"), "model");
  EXPECT_EQ(report.at("claims").at(0).at("verdict"), "pass");
  const std::string finding = report.at("finding");
  EXPECT_TRUE(finding.starts_with("weakest product: forward of fc1, ")) << finding;
  EXPECT_NE(finding.find("3 of 5 calls by no operator of the policy"), std::string::npos) << finding;
  const Json unwatched = trainings::model_report(nullptr, facts, "test").to_json();
  EXPECT_EQ(unwatched.at("claims").at(0).at("verdict"), "skipped");
  facts.calls = Json::parse(R"([["linear"]])");
  EXPECT_THROW(trainings::model_report(nullptr, facts, "test"), std::logic_error);
}

}  // namespace model_watch_test
