// Gradients of operators against differences of losses written as plain loops, and the tables `backward`,
// `repeated_tokens` and `cancellation` against loops in doubles, rounded by hand.
#include "experiment_run.hpp"

#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace halfulp::operators {
namespace operators_backward_test {

using Numbers = std::vector<double>;
using Wide = std::vector<long double>;

/// To nearest even with p bits, by the C library: what doubles computed before is exact or far from a tie.
struct Rounder {
  int p, emin;
  double most;
  double operator()(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int unit = std::max(std::ilogb(x), emin) - p + 1;
    const double y = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
    return std::fabs(y) > most ? std::copysign(HUGE_VAL, y) : y;
  }
};
const std::map<std::string, Rounder> rounders{
    {"fp16", {11, -14, 65504}}, {"bf16", {8, -126, 0x1.fep127}}, {"fp32", {24, -126, 0x1.fffffep127}}};

/// (1/d) sum g x / sqrt(...), of x or of its deviations.
long double norm_loss(const long double* x, const long double* g, std::size_t n, bool centred) {
  long double mean = 0, squares = 0, loss = 0;
  for (std::size_t i = 0; i < n && centred; ++i) mean += x[i] / static_cast<long double>(n);
  for (std::size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean) / static_cast<long double>(n);
  for (std::size_t i = 0; i < n; ++i) loss += g[i] * (x[i] - mean) / std::sqrt(squares + 1e-5L);
  return loss;
}

long double attention_loss(const Wide& z) {
  const long double *q = z.data(), *k = q + 128, *v = k + 128, *g = v + 128;
  long double loss = 0;
  for (int t = 0; t < 8; ++t) {
    long double weights[8], sum = 0;
    for (int u = 0; u < 8; ++u) {
      long double score = 0;
      for (int d = 0; d < 16; ++d) score += q[16 * t + d] * k[16 * u + d];
      sum += weights[u] = std::exp(score / 4);
    }
    for (int u = 0; u < 8; ++u)
      for (int d = 0; d < 16; ++d) loss += g[16 * t + d] * weights[u] / sum * v[16 * u + d];
  }
  return loss;
}

long double binary_loss(const Wide& x) {
  long double loss = 0;
  for (std::size_t i = 0; i < 16; ++i) loss += std::log1p(std::exp(i < 8 ? -x[i] : x[i])) / 16;
  return loss;
}

long double label_loss(const Wide& x) {
  long double sum = 0;
  for (std::size_t i = 0; i < 64; ++i) sum += std::exp(x[i]);
  return (std::log(sum) - x[0]) / 64;
}

/// Losses of 64 numbers, each of whose gradients has another name.
const std::map<std::string, std::function<long double(const Wide&)>> losses{
    {"bce", binary_loss},
    {"bce-with-logits", binary_loss},
    {"softmax-and-nll", label_loss},
    {"cross-entropy", label_loss},
    {"layer-norm", [](const Wide& z) { return norm_loss(&z[0], &z[64], 64, true); }},
    {"rms-norm", [](const Wide& z) { return norm_loss(&z[0], &z[64], 64, false); }},
    {"batch-norm",
     [](const Wide& z) {
       long double loss = 0;
       for (std::size_t c = 0; c < 64; c += 16) loss += norm_loss(&z[c], &z[64 + c], 16, true);
       return loss;
     }},
    {"attention", attention_loss},
    {"max-pool",
     [](const Wide& z) {
       long double loss = 0;
       for (std::size_t w = 0; w < 16; ++w)
         loss += z[64 + w] * *std::max_element(z.begin() + static_cast<std::ptrdiff_t>(4 * w),
                                               z.begin() + static_cast<std::ptrdiff_t>(4 * w + 4));
       return loss;
     }},
};

const Operator& find(std::string_view name) {
  for (const Operator& op : gradient_table())
    if (op.name == name) return op;
  throw std::invalid_argument(std::string(name));
}

struct Case {
  OperatorProgram program;
  Numbers inputs, exact;
  explicit Case(std::string_view name, std::size_t n = 64)
      : program(build_gradient(find(name), SumOrder::sequential, n)), inputs(draw_inputs(program, 1, 1, 0)) {
    for (const Real& y : exact_outputs(program, inputs)) exact.push_back(static_cast<double>(y));
  }
};

TEST(Gradients, are_the_slopes_of_losses) {
  for (const auto& [name, loss] : losses) {
    const Case c(name);
    const double norm = std::sqrt(std::inner_product(c.exact.begin(), c.exact.end(), c.exact.begin(), 0.0));
    ASSERT_GT(norm, 0) << name;
    for (std::size_t i = 0; i < c.exact.size(); ++i) {
      Wide more(c.inputs.begin(), c.inputs.end()), less = more;
      constexpr long double step = 1e-5L;
      more[i] += step, less[i] -= step;
      EXPECT_NEAR(c.exact[i], static_cast<double>((loss(more) - loss(less)) / (2 * step)), 1e-8 * norm) << name << i;
    }
  }
}

TEST(Gradients, of_linear_operators_are_sums_and_shares) {
  const Case e("embedding"), a("average-pool"), g("global-average-pool"), d("dropout");
  std::size_t at = 0;
  for (std::size_t k = 0; k < 6; ++k) {  // 1 + 2 + ... + 32 of 64
    double sum = 0;
    for (std::size_t i = 0; i < (std::size_t{1} << k); ++i) sum += e.inputs[at++];
    EXPECT_NEAR(e.exact.at(k), sum, 1e-15);
  }
  EXPECT_EQ(e.exact.size(), 6u);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(a.exact.at(i), a.inputs[i] / 4);
    EXPECT_EQ(g.exact.at(i), g.inputs[i] / 64);
  }
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(d.exact.at(i), i % 10 == 9 ? 0 : d.inputs[i] / 0.9, 1e-15);
}

TEST(Gradients, the_first_of_equal_maxima_has_the_gradient) {
  const OperatorProgram p = build_gradient(find("max-pool"), SumOrder::sequential, 64);
  Numbers inputs(p.inputs(), 1);
  inputs[1] = inputs[3] = 2;  // 1 2 1 2, then equal ones
  const Numbers y = Evaluator(p, precisions(p, Backward::all, bf16), {})(inputs);
  EXPECT_EQ(Numbers(y.begin(), y.begin() + 8), (Numbers{0, 1, 0, 0, 1, 0, 0, 0}));
}

TEST(Gradients, fp32_sums_are_wide_between_tensors_of_the_format) {
  OperatorProgram p(SumOrder::sequential);
  p.accumulate_apart();
  const auto x = p.operand(Draw::activation, 3);
  const auto sum = p.sum(x);
  p.output(p.sum(std::vector{sum, x[1], x[1]}));
  p.output(p.dot(x, x));
  const auto of = [&](Backward how, const Numbers& in) { return Evaluator(p, precisions(p, how, fp16), {})(in); };
  EXPECT_EQ(of(Backward::all, {2048, 1, 1}), (Numbers{2048, HUGE_VAL}));
  // 2050 + 1 + 1; and a sum of 2051 is a tensor, 2052, before 1 + 1 is added.
  EXPECT_EQ(of(Backward::fp32_sums, {2048, 1, 1}), (Numbers{2052, HUGE_VAL}));
  EXPECT_EQ(of(Backward::fp32_sums, {2048, 1, 2})[0], 2054);
  EXPECT_EQ(of(Backward::fp32, {2048, 1, 2}), (Numbers{2053, 4194309}));
}

/// The rows of a table, by the text of their first columns.
Json cell(const Json& report, const std::string& table, const std::vector<Json>& key, const std::string& column) {
  const Json& found = report["results"][table];
  std::size_t at = 0;
  while (found["columns"].at(at)["name"] != column) ++at;
  for (const Json& row : found["rows"])
    if (std::equal(key.begin(), key.end(), row.begin())) return row[at];
  throw std::invalid_argument(table + "." + column);
}

double relative(const Numbers& y, const Numbers& exact) {
  double squares = 0, whole = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    squares += (y[i] - exact[i]) * (y[i] - exact[i]), whole += exact[i] * exact[i];
  return std::sqrt(squares / whole);
}

const Json& small_report() {
  static const Json report = tests::report_of(
      "operators", {"formats=fp16,bf16", "size=64", "samples=1", "scales=1", "graph_budget=1"});
  return report;
}

TEST(BackwardTable, errors_are_those_of_plain_loops) {
  for (const std::string name : {"fp16", "bf16"}) {
    const Rounder round = rounders.at(name), wide = rounders.at("fp32");
    const auto expect = [&](const std::string& how, const std::string& op, const Numbers& y, const Case& c) {
      for (const Json& row : small_report()["results"]["backward"]["rows"]) {
        if (row[0] != name || row[1] != how || row[2] != op) continue;
        EXPECT_NEAR(row[6].get<double>(), relative(y, c.exact), 1e-9 * relative(y, c.exact)) << name << how << op;
        std::size_t vanished = 0;
        for (std::size_t i = 0; i < y.size(); ++i) vanished += y[i] == 0 && c.exact[i] != 0;
        EXPECT_EQ(row[10].get<double>(), static_cast<double>(vanished) / static_cast<double>(y.size()));
        return;
      }
      ADD_FAILURE() << name << how << op;
    };
    const Case logits("bce-with-logits"), repeated("embedding"), shared("global-average-pool");
    Numbers fused, narrow_sums, wide_sums, shares;
    for (std::size_t i = 0; i < 16; ++i) {
      const double y = round(1 / round(1 + round(std::exp(-round(logits.inputs[i])))));
      fused.push_back(round((i < 8 ? round(y - 1) : y) * 0.0625));
      shares.push_back(round(round(shared.inputs[i]) / 64));
    }
    std::size_t at = 0;
    for (std::size_t k = 0; k < 6; ++k) {
      double narrow = 0, full = 0;
      for (std::size_t i = 0; i < (std::size_t{1} << k); ++i, ++at) {
        narrow = round(narrow + round(repeated.inputs[at])), full = wide(full + round(repeated.inputs[at]));
      }
      narrow_sums.push_back(narrow), wide_sums.push_back(round(full));
    }
    expect("all", "bce-with-logits", fused, logits);
    expect("all", "global-average-pool", shares, shared);
    expect("all", "embedding", narrow_sums, repeated);
    expect("fp32-sums", "embedding", wide_sums, repeated);
  }
}

TEST(RepeatedTokens, sums_are_those_of_plain_loops) {
  for (const std::string name : {"fp16", "bf16"}) {
    const Rounder round = rounders.at(name), wide = rounders.at("fp32");
    OperatorProgram p(SumOrder::sequential);
    p.operand(Draw::positive, 4096);
    std::vector<Numbers> draws;
    for (std::uint64_t d = 0; d < 8; ++d) {
      draws.push_back(draw_inputs(p, 0x1p-4, 1, d));
      for (double& x : draws.back()) x = round(x);
    }
    for (int n = 1; n <= 4096; n *= 2) {
      double equal = 0;
      for (int i = 0; i < n; ++i) equal = round(equal + 0.0625);
      EXPECT_EQ(cell(small_report(), "repeated_tokens", {name, n}, "equal"), 16 * equal) << name << n;
      EXPECT_EQ(cell(small_report(), "repeated_tokens", {name, n}, "equal_fp32_sums"), n) << name;
      Numbers narrow, full, exact;
      for (const Numbers& x : draws) {
        narrow.push_back(0), full.push_back(0), exact.push_back(0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
          narrow.back() = round(narrow.back() + x[i]), full.back() = wide(full.back() + x[i]), exact.back() += x[i];
        full.back() = round(full.back());
      }
      EXPECT_NEAR(cell(small_report(), "repeated_tokens", {name, n}, "error").get<double>(), relative(narrow, exact),
                  1e-12);
      EXPECT_NEAR(cell(small_report(), "repeated_tokens", {name, n}, "error_fp32_sums").get<double>(),
                  relative(full, exact), 1e-12);
    }
  }
}

TEST(Cancellation, forms_are_those_of_plain_loops) {
  std::size_t seen = 0;
  for (const Json& row : small_report()["results"]["cancellation"]["rows"]) {
    const Rounder round = rounders.at(row[0]);
    const std::string form = row[1];
    const int k = row[3];
    const double apart = std::ldexp(4.0 / 3, -k), x = round(apart);
    double naive = 0, stable = 0, exact = 0;
    if (form == "x - y") {
      naive = round(4.0 / 3) - round(4.0 / 3 - apart), stable = x, exact = apart;
    } else if (form == "log(1 + x)") {
      naive = round(std::log(round(1 + x))), exact = std::log1p(x), stable = round(exact);
    } else if (form == "e^x - 1") {
      naive = round(round(std::exp(x)) - 1), exact = std::expm1(x), stable = round(exact);
    } else {
      const double sine = round(std::sin(round(x / 2)));
      naive = round(1 - round(std::cos(x))), stable = round(2 * round(sine * sine));
      exact = 2 * std::sin(x / 2) * std::sin(x / 2);
    }
    EXPECT_EQ(row[6]["value"], naive) << row;
    EXPECT_EQ(row[7]["value"], stable) << row;
    EXPECT_NEAR(row[5].get<double>() / exact, 1, 1e-14) << row;
    EXPECT_NEAR(row[8].get<double>(), std::fabs(naive / exact - 1), 1e-8) << row;
    EXPECT_NEAR(row[9].get<double>(), std::fabs(stable / exact - 1), 1e-14) << row;
    ++seen;
  }
  EXPECT_EQ(seen, 4u * (14 + 12 + 28)) << "fp16, bf16 and fp32, up to 4 beyond the precision or to the subnormals";
}

TEST(Claims, of_gradients_and_cancellation_hold_and_are_measured) {
  std::size_t seen = 0;
  for (const Json& claim : small_report()["claims"])
    for (const char* id :
         {"sterbenz-differences-are-exact", "cancellation-leaves-nothing", "stable-forms-keep-their-digits",
          "repeated-tokens-stagnate", "repeated-tokens-in-fp32", "repeated-tokens-one-rounding",
          "bce-apart-loses-gradients", "bce-with-logits-keeps-gradients", "average-pool-underflows"})
      if (claim["id"] == id) {
        EXPECT_EQ(claim["verdict"], "pass") << claim;
        ++seen;
      }
  EXPECT_EQ(seen, 9u);
}

}  // namespace operators_backward_test
}  // namespace halfulp::operators
