// Fixed ranges of operands and straight-through gradients, on one product with k = 3: against numbers worked out by
// hand and against plain policies.
#include <halfulp/training/policy_numerics.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace straight_through_test {

using namespace halfulp;
using namespace halfulp::training;

Policy policy(const std::string& operands, const std::string& more = "") {
  return parse_policy(
      Json::parse(R"({"name": "p", "rules": [{"operators": ["linear"], "layers": ["fc"], "operands": )" + operands +
                  more + "}]}"),
      "p");
}

const char* const int4 = R"({"activation": {"format": "int4/tensor/fp32", "amax": 7}, "weight": "int4/row/fp32"})";

struct Products {
  std::vector<float> y, dx, dw;
};

/// x 2 x 3, w 2 x 3, dy 2 x 2.
Products run(const Policy& p, const std::vector<float>& x, const std::vector<float>& w, const std::vector<float>& dy) {
  PolicyNumerics numerics(p, 1);
  const Site site{OperatorKind::linear, "fc"};
  Products out{std::vector<float>(4), std::vector<float>(6), std::vector<float>(6)};
  PolicyNumerics::Operands o;
  o.m = 2, o.n = 2, o.k = 3, o.a = x, o.b = w, o.transpose_b = true;
  numerics.product(site, Product::forward, o, {}, out.y);
  o = {};
  o.m = 2, o.n = 3, o.k = 2, o.a = dy, o.b = w;
  numerics.product(site, Product::to_input, o, {}, out.dx);
  o = {};
  o.m = 2, o.n = 3, o.k = 2, o.a = dy, o.transpose_a = true, o.b = x;
  numerics.product(site, Product::to_weight, o, {}, out.dw);
  return out;
}

const std::vector<float> x{1.4f, -9, 2.6f, 7.5f, 7, -0.4f}, w{14, 3.1f, -5, 0.7f, 0.16f, 0.31f}, dy{1, 10, 100, 1000};

TEST(StraightThrough, RoundsOnceAndStopsGradientsBeyondTheRange) {
  // Activations have steps of 1 up to 7, so -9 and 7.5 are out of range. The weights' rows have steps of 2 and 0.1.
  const Products p = run(policy(int4, R"(, "straight_through": true)"), x, w, dy);
  const float qx[6] = {1, -7, 3, 7, 7, 0};
  const float s = 0.7f * (1.0f / 7), qw[6] = {14, 4, -4, 7 * s, 2 * s, 3 * s};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      float sum = 0;
      for (int k = 0; k < 3; ++k) sum += qx[i * 3 + k] * qw[j * 3 + k];
      EXPECT_NEAR(p.y[static_cast<std::size_t>(i * 2 + j)], sum, 1e-4 * (1 + std::fabs(sum)));
    }
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 3; ++k) {
      const bool beyond = std::fabs(x[static_cast<std::size_t>(i * 3 + k)]) > 7;
      const float want = beyond ? 0
                                : dy[static_cast<std::size_t>(i * 2)] * qw[k] +
                                      dy[static_cast<std::size_t>(i * 2 + 1)] * qw[3 + k];
      EXPECT_NEAR(p.dx[static_cast<std::size_t>(i * 3 + k)], want, 1e-4 * (1 + std::fabs(want))) << i << " " << k;
      if (beyond) { EXPECT_EQ(p.dx[static_cast<std::size_t>(i * 3 + k)], 0); }
    }
  for (int j = 0; j < 2; ++j)
    for (int k = 0; k < 3; ++k) {
      const float want = dy[static_cast<std::size_t>(j)] * qx[k] + dy[static_cast<std::size_t>(2 + j)] * qx[3 + k];
      EXPECT_NEAR(p.dw[static_cast<std::size_t>(j * 3 + k)], want, 1e-4 * (1 + std::fabs(want))) << j << " " << k;
    }
}

TEST(StraightThrough, ForwardIsThatOfTheSameOperandsWithoutIt) {
  EXPECT_EQ(run(policy(int4, R"(, "straight_through": true)"), x, w, dy).y, run(policy(int4), x, w, dy).y);
}

TEST(StraightThrough, WithoutRoundingIsFp32) {
  const Products a = run(policy(R"("fp32")", R"(, "straight_through": true)"), x, w, dy),
                 b = run(policy(R"("fp32")"), x, w, dy);
  EXPECT_EQ(a.y, b.y);
  EXPECT_EQ(a.dx, b.dx);
  EXPECT_EQ(a.dw, b.dw);
}

TEST(StraightThrough, WeightsBeyondAFixedRangeGetNoGradient) {
  const Products p = run(
      policy(R"({"weight": {"format": "int4/tensor/fp32", "amax": 5}})", R"(, "straight_through": true)"), x, w, dy);
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_EQ(p.dw[i] == 0, w[i] == 14) << i;
}

std::string refusal(const std::string& json) {
  try {
    parse_policy(Json::parse(json), "mine");
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

TEST(FixedAmax, ReadsBackAndIsRefusedWhereItMeansNothing) {
  const Json json = Json::parse(R"({"format": "int8-tensor", "amax": 3.25})");
  const Storage s = parse_storage(json, "s");
  EXPECT_EQ(s.amax, 3.25f);
  EXPECT_EQ(to_json(s), json);
  EXPECT_EQ(text_of(s), "int8-tensor fixed");
  const auto of = [](const std::string& storage) {
    return refusal(R"({"name": "p", "rules": [{"operators": ["linear"], "operands": )" + storage + "}]}");
  };
  EXPECT_EQ(of(R"({"format": "int8-tensor", "amax": 1})"), "accepted");
  const auto begins = [](const std::string& text, const std::string& with) {
    EXPECT_EQ(text.substr(0, with.size()), with);
  };
  begins(of(R"({"format": "int8", "amax": 1})"),
         "mine.rules[0].operands.amax: a fixed amax is for block formats with one scale a tensor");
  begins(of(R"({"format": "fp16", "amax": 1})"), "mine.rules[0].operands.amax: a fixed amax is for block formats");
  for (const char* const bad : {"0", "-1", "1e39", "\"1\"", "1e-60"})
    begins(of(R"({"format": "int8-tensor", "amax": )" + std::string(bad) + "}"), "mine.rules[0].operands.amax is ");
  begins(of(R"({"format": "int8-tensor", "amax": 1, "delayed": {}})"),
         "mine.rules[0].operands.amax: a fixed amax and delayed scaling exclude each other");
  begins(refusal(R"({"name": "p", "weights": {"storage": {"format": "int8-tensor", "amax": 1}}})"),
         "mine.weights.storage: a fixed amax is for operands");
  begins(refusal(R"({"name": "p", "optimizer": {"second": {"format": "int8-tensor", "amax": 1}}})"),
         "mine.optimizer: a fixed amax is for operands");
  begins(refusal(R"({"name": "p", "rules": [{"operators": ["lstm-cell"], "straight_through": true}]})"),
         "mine: lstm-cell: straight_through is for linear and conv2d");
  begins(refusal(R"({"name": "p", "rules": [{"operators": ["linear"], "straight_through": 1}]})"),
         "mine.rules[0].straight_through is 1; accepted: true or false");
}

}  // namespace straight_through_test
