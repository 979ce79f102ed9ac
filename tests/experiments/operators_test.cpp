// Operators in elementary operations against definitions written differently, their evaluation, and where they leave
// the range.
#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace halfulp::operators {
namespace operators_test {

const Operator& find(std::string_view name) {
  for (const Operator& op : operator_table())
    if (op.name == name) return op;
  throw std::invalid_argument(std::string(name));
}

std::vector<double> exact_of(std::string_view name, const std::vector<double>& inputs, std::size_t n = 64) {
  std::vector<double> y;
  for (const Real& v : exact_outputs(build(find(name), SumOrder::sequential, n), inputs))
    y.push_back(static_cast<double>(v));
  return y;
}

std::vector<double> inputs_of(std::string_view name, double scale = 1, std::size_t n = 64) {
  return draw_inputs(build(find(name), SumOrder::sequential, n), scale, 7, 0);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-12 * (1 + std::fabs(wanted[i]))) << what << " " << i;
}

template <class F>
std::vector<double> mapped(const std::vector<double>& x, F&& f) {
  std::vector<double> y;
  for (const double v : x) y.push_back(f(v));
  return y;
}

// The test's own formulas, by libm.
TEST(Operators, pointwise_functions_are_their_definitions) {
  const auto check = [](const char* name, auto&& f) {
    expect_near(exact_of(name, inputs_of(name)), mapped(inputs_of(name), f), name);
  };
  check("relu", [](double x) { return x > 0 ? x : 0; });
  check("gelu", [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); });
  check("sigmoid", [](double x) { return std::exp(x) / (1 + std::exp(x)); });
  check("tanh", [](double x) { return std::tanh(x); });
  check("exp", [](double x) { return std::exp(x); });
  check("log", [](double x) { return std::log(x); });
  check("pow", [](double x) { return x * x * x; });
  check("reciprocal", [](double x) { return 1 / x; });
  check("rsqrt", [](double x) { return 1 / std::sqrt(x); });
  check("embedding", [](double x) { return x; });
}

/// 1 + erf(x / sqrt 2) is 0 in 113 bits from x = -12.5 on, and x Phi(x) is not.
TEST(Operators, the_tail_of_gelu_is_no_zero) {
  std::vector<double> x(16);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = -2.0 * static_cast<double>(i + 1);
  const auto y = exact_of("gelu", x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = x[i] / 2 * std::erfc(-x[i] / std::sqrt(2.0));
    EXPECT_NEAR(y[i] / wanted, 1, 1e-12) << x[i];
  }
}

TEST(Operators, softmax_and_losses_are_their_definitions) {
  for (const double scale : {0.5, 4.0}) {
    const std::vector<double> x = inputs_of("softmax", scale);
    double sum = 0;
    for (const double v : x) sum += std::exp(v);
    expect_near(exact_of("softmax", x), mapped(x, [&](double v) { return std::exp(v) / sum; }), "softmax");
    expect_near(exact_of("softmax-unshifted", x), mapped(x, [&](double v) { return std::exp(v) / sum; }), "unshifted");
    expect_near(exact_of("log-softmax", x), mapped(x, [&](double v) { return v - std::log(sum); }), "log-softmax");
    expect_near(exact_of("cross-entropy", x), {std::log(sum) - x[0]}, "cross-entropy");
  }
  const std::vector<double> p = inputs_of("bce"), z = inputs_of("bce-with-logits");
  double by_p = 0, by_z = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const bool one = i < p.size() / 2;
    by_p -= std::log(one ? p[i] : 1 - p[i]) / static_cast<double>(p.size());
    by_z += std::log1p(std::exp(one ? -z[i] : z[i])) / static_cast<double>(z.size());
  }
  expect_near(exact_of("bce", p), {by_p}, "bce");
  expect_near(exact_of("bce-with-logits", z), {by_z}, "bce-with-logits");
  EXPECT_NEAR(by_p, by_z, 1e-6) << "the same examples";
  const std::vector<double> x = inputs_of("mse");
  double squares = 0;
  for (std::size_t i = 0; i < 64; ++i) squares += (x[i] - x[64 + i]) * (x[i] - x[64 + i]);
  expect_near(exact_of("mse", x), {squares / 64}, "mse");
}

TEST(Operators, norms_reductions_and_pools_are_their_definitions) {
  const std::vector<double> x = inputs_of("layer-norm");
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / 64;
  double squares = 0, deviations = 0;
  for (const double v : x) squares += v * v, deviations += (v - mean) * (v - mean);
  expect_near(exact_of("layer-norm", x),
              mapped(x, [&](double v) { return (v - mean) / std::sqrt(deviations / 64 + 1e-5); }), "layer-norm");
  expect_near(exact_of("rms-norm", x), mapped(x, [&](double v) { return v / std::sqrt(squares / 64 + 1e-5); }),
              "rms-norm");
  expect_near(exact_of("norm", x), {std::sqrt(squares)}, "norm");
  expect_near(exact_of("sum", x), {64 * mean}, "sum");
  expect_near(exact_of("mean", x), {mean}, "mean");
  const auto normed = exact_of("batch-norm", x);
  for (std::size_t c = 0; c < 4; ++c) {
    double sum = 0, square = 0;
    for (std::size_t i = 16 * c; i < 16 * c + 16; ++i) sum += normed[i], square += normed[i] * normed[i];
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(square / 16, 1, 1e-3);
  }
  const std::vector<double> factors = inputs_of("prod");
  expect_near(exact_of("prod", factors), {std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies<>())},
              "prod");
  std::vector<double> largest, average;
  for (std::size_t i = 0; i < 64; i += 4) {
    largest.push_back(
        *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(i), x.begin() + static_cast<std::ptrdiff_t>(i) + 4));
    average.push_back((x[i] + x[i + 1] + x[i + 2] + x[i + 3]) / 4);
  }
  expect_near(exact_of("max-pool", x), largest, "max-pool");
  expect_near(exact_of("average-pool", x), average, "average-pool");
}

TEST(Operators, products_and_cells_are_their_definitions) {
  const std::vector<double> in = inputs_of("linear");
  std::vector<double> wanted(4);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 64; ++k) wanted[i] += in[k] * in[64 * (i + 1) + k];
  expect_near(exact_of("linear", in), wanted, "linear");

  const std::vector<double> image = inputs_of("conv2d");  // one channel of 4 x 4, then 3 x 3
  std::vector<double> places(4);
  for (std::size_t o = 0; o < 4; ++o)
    for (std::size_t r = 0; r < 3; ++r)
      for (std::size_t c = 0; c < 3; ++c) places[o] += image[(o / 2 + r) * 4 + o % 2 + c] * image[16 + 3 * r + c];
  expect_near(exact_of("conv2d", image), places, "conv2d");

  const std::vector<double> cell = inputs_of("lstm-cell");  // x 1, h 8, c 8, then 32 rows of 9
  const auto gate = [&](std::size_t row) {
    double sum = 0;
    for (std::size_t k = 0; k < 9; ++k) sum += cell[k] * cell[17 + 9 * row + k];
    return sum;
  };
  const auto sigmoid_of = [](double x) { return 1 / (1 + std::exp(-x)); };
  std::vector<double> hidden, cells;
  for (std::size_t j = 0; j < 8; ++j) {
    cells.push_back(sigmoid_of(gate(8 + j)) * cell[9 + j] + sigmoid_of(gate(j)) * std::tanh(gate(16 + j)));
    hidden.push_back(sigmoid_of(gate(24 + j)) * std::tanh(cells.back()));
  }
  hidden.insert(hidden.end(), cells.begin(), cells.end());
  expect_near(exact_of("lstm-cell", cell), hidden, "lstm-cell");
}

TEST(Operators, labels_have_the_probabilities_of_their_logits) {
  OperatorProgram p(SumOrder::sequential);
  p.operand(Draw::label_logits, 3);
  p.operand(Draw::binary_logits, 16);
  // Of examples with logits a, b, c the mean of p(label) must be the mean of the sum of squares of probabilities.
  double label = 0, squares = 0, any_label = 0, one = 0, certainty = 0, any = 0;
  constexpr int count = 20000;  // even samples; in odd ones the first logit's label is any
  for (int i = 0; i < 2 * count; ++i) {
    const auto x = draw_inputs(p, 2, 3, static_cast<std::uint64_t>(i));
    const double sum = std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2]);
    if (i % 2 == 1) {
      any_label += std::exp(x[0]) / sum;
      continue;
    }
    label += std::exp(x[0]) / sum;
    for (std::size_t k = 0; k < 3; ++k) squares += std::pow(std::exp(x[k]) / sum, 2);
    const double y = 1 / (1 + std::exp(-x[3]));
    one += y;
    certainty += y * y + (1 - y) * (1 - y);
    any += 1 / (1 + std::exp(-x[3 + 7]));  // the eighth has any label
  }
  EXPECT_NEAR(label / count, squares / count, 0.01);
  EXPECT_NEAR(any_label / count, 1.0 / 3, 0.01);
  EXPECT_NEAR(one / count, certainty / count, 0.01);
  EXPECT_NEAR(any / count, 0.5, 0.01);
}

TEST(Operators, probabilities_of_binary_losses_are_between_0_and_1) {
  for (const double scale : {1.0, 16.0, 1e4})
    for (const double p : inputs_of("bce", scale, 1024)) {
      EXPECT_GE(p, std::numeric_limits<float>::min());
      EXPECT_LE(p, 1 - 0x1p-24);
    }
}

/// Every operation on its own is the emulation's, and functions without an IEEE operation are rounded once.
TEST(Evaluator, rounds_each_operation_once) {
  for (const FloatFormat& f : {fp16, bf16, e4m3, e5m2}) {
    Function exp_of(f, Where::all, [](OperatorProgram& p, OperatorProgram::Value x) { return p.exp(x); });
    Function tanh_of(f, Where::all, [](OperatorProgram& p, OperatorProgram::Value x) { return p.tanh(x); });
    Function log_of(f, Where::all, [](OperatorProgram& p, OperatorProgram::Value x) { return p.log(x); });
    for (std::uint64_t code = 0; code <= f.code_mask(); code += f.storage_bits() > 8 ? 37 : 1) {
      const double x = f.value(code);
      if (!std::isfinite(x)) continue;
      const auto expect_same = [&](double got, std::uint64_t wanted, const char* what) {
        EXPECT_TRUE(got == f.value(wanted) || (std::isnan(got) && f.is_nan(wanted)))
            << what << " of " << x << ": " << got << ", not " << f.value(wanted);
      };
      expect_same(exp_of(x), encode(f, {}, std::exp(x)).code, "exp");
      expect_same(tanh_of(x), encode(f, {}, std::tanh(x)).code, "tanh");
      if (x > 0) expect_same(log_of(x), encode(f, {}, std::log(x)).code, "log");
      else EXPECT_FALSE(std::isfinite(log_of(x)));
    }
  }
}

TEST(Evaluator, rounds_real_numbers_in_every_mode) {
  const double values[] = {1.0, 1.0 + 0x1p-11, 1.0 + 0x1.8p-11, -2.7,  65519.9, 65520.0,
                           1e9, 0x1p-25,       0x1.8p-25,       -3e-8, 0x1p-30, 6e-5};
  for (const auto& mode : rounding_modes) {
    if (mode.value == RoundingMode::stochastic) continue;
    for (const FloatFormat& f : {fp16, bf16, e4m3})
      for (const double x : values)
        EXPECT_EQ(round_real(f, {mode.value}, Real(x)), encode(f, {mode.value}, x).code) << mode.name << " " << x;
  }
  // Behind 1 + 2^-11, a tie, something far below a double's last place: up.
  EXPECT_EQ(round_real(fp16, {}, Real(1) + ldexp(Real(1), -11) + ldexp(Real(1), -100)), 0x3c01u);
}

TEST(Evaluator, tensors_in_the_format_and_fp32_inside) {
  // 2048 + 1 - 2048: 0 with every operation in fp16, 1 inside FP32; 2049 comes in as 2048.
  OperatorProgram p(SumOrder::sequential);
  const auto x = p.operand(Draw::activation, 3);
  p.output(p.sum(x));
  EXPECT_EQ(Evaluator(p, {Precision::of(Where::all, fp16)}, {})(std::vector<double>{2048, 1, -2048}),
            std::vector<double>{0});
  EXPECT_EQ(Evaluator(p, {Precision::of(Where::tensors, fp16)}, {})(std::vector<double>{2048, 1, -2048}),
            std::vector<double>{1});
  EXPECT_EQ(Evaluator(p, {Precision::of(Where::tensors, fp16)}, {})(std::vector<double>{2049, 1, -2048}),
            std::vector<double>{1});
  EXPECT_EQ(Evaluator(p, {Precision::of(Where::fp32, fp16)}, {})(std::vector<double>{2049, 1, -2048}),
            std::vector<double>{2});

  // Between stages a value passes both tensor formats.
  OperatorProgram two(SumOrder::sequential, "first");
  const auto a = two.operand(Draw::activation, 2);
  const auto sum = two.add(a[0], a[1]);
  two.stage("second");
  two.output(two.add(sum, two.constant(0)));
  const Precision wide = Precision::of(Where::fp32, fp32), half = Precision::of(Where::tensors, fp16),
                  brain = Precision::of(Where::all, bf16);
  EXPECT_EQ(Evaluator(two, {wide, wide}, {})(std::vector<double>{2048, 1}), std::vector<double>{2049});
  EXPECT_EQ(Evaluator(two, {half, wide}, {})(std::vector<double>{2048, 1}), std::vector<double>{2048});
  EXPECT_EQ(Evaluator(two, {half, wide}, {})(std::vector<double>{2048, 3}), std::vector<double>{2052});
  EXPECT_EQ(Evaluator(two, {half, brain}, {})(std::vector<double>{2048, 3}), std::vector<double>{2048});
  EXPECT_EQ(Evaluator(two, {wide, brain}, {})(std::vector<double>{2048, 9}), std::vector<double>{2064});
}

TEST(Evaluator, sums_in_both_orders) {
  OperatorProgram pairwise(SumOrder::pairwise), sequential(SumOrder::sequential);
  for (OperatorProgram* p : {&pairwise, &sequential}) {
    const auto x = p->operand(Draw::activation, 4096);
    p->output(p->sum(x));
  }
  const std::vector<double> ones(4096, 1.0);
  EXPECT_EQ(Evaluator(pairwise, {Precision::of(Where::all, fp16)}, {})(ones), std::vector<double>{4096});
  EXPECT_EQ(Evaluator(sequential, {Precision::of(Where::all, fp16)}, {})(ones), std::vector<double>{2048});
}

/// Brute force over all code words of fp16: the points of the table.
TEST(Limits, points_of_fp16) {
  Function exp_of(fp16, Where::all, [](OperatorProgram& p, OperatorProgram::Value x) { return p.exp(x); });
  double infinite = 0, zero = 0;
  for (std::uint64_t code = 1; code <= fp16.max_finite() && infinite == 0; ++code)
    if (std::isinf(exp_of(fp16.value(code)))) infinite = fp16.value(code);
  for (std::uint64_t code = 1; code <= fp16.max_finite() && zero == 0; ++code)
    if (exp_of(-fp16.value(code)) == 0) zero = fp16.value(code);
  EXPECT_EQ(infinite, 11.09375);
  EXPECT_EQ(zero, 17.34375);  // 25 ln 2 = 17.3287, in steps of 2^-6: e^-17.328125 > 2^-25
  EXPECT_EQ(static_cast<double>(overflow_threshold(fp16)), 65520);
  EXPECT_GT(overflow_threshold(e4m3), Real(464));
  EXPECT_LT(overflow_threshold(e4m3), Real(464.0001));
  EXPECT_EQ(first_code(fp16, [](double x) { return x >= 2; }), 0x4000u);
  EXPECT_EQ(first_code(fp16, [](double) { return false; }), fp16.max_finite() + 1);
  // sigmoid(x) = 1 where 1 + e^-x rounds to 1: the first by the threshold is the first by evaluation.
  for (const FloatFormat& f : {fp16, bf16, e5m2}) {
    Function of(f, Where::all, sigmoid);
    std::uint64_t code = 1;
    while (of(f.value(code)) != 1) ++code;
    EXPECT_GE(Real(f.value(code)), sigmoid_threshold(f));
    EXPECT_LT(Real(f.value(code - 1)), sigmoid_threshold(f));
  }
}

TEST(Operators, functions_of_infinities_are_those_of_iso_c) {
  const Real infinity = std::numeric_limits<Real>::infinity();
  EXPECT_EQ(real_function(ElementaryOperation::log1p, infinity), infinity);
  EXPECT_EQ(real_function(ElementaryOperation::expm1, -infinity), -1);
  EXPECT_EQ(real_function(ElementaryOperation::expm1, infinity), infinity);
  EXPECT_EQ(real_function(ElementaryOperation::erf, -infinity), -1);
  EXPECT_EQ(real_function(ElementaryOperation::tanh, infinity), 1);
  EXPECT_TRUE(isnan(real_function(ElementaryOperation::log1p, std::numeric_limits<Real>::quiet_NaN())));
}

TEST(Operators, a_node_depends_on_every_node_that_it_reads) {
  for (int place = 0; place < 5; ++place) {
    OperatorProgram p(SumOrder::sequential, "first");
    const OperatorProgram::Values x = p.operand(Draw::activation, 2);
    p.stage("second");
    OperatorProgram::Values read = p.operand(Draw::activation, 5);
    read[place] = p.add(read[place], x[0]);
    const auto a = p.fma(read[0], read[1], read[2]), b = p.add(read[3], read[4]);
    const OperatorProgram::Values depending = p.depending_on(0);
    EXPECT_EQ(std::count(depending.begin(), depending.end(), a), place < 3) << place;
    EXPECT_EQ(std::count(depending.begin(), depending.end(), b), place >= 3) << place;
    EXPECT_EQ(depending.size(), 4u) << place;
  }
}

/// One stage after the other gets another precision, some twice: what is left as it was is what it would be.
TEST(Operators, what_depends_on_a_stage_is_all_that_its_precision_changes) {
  const Precision precisions[] = {Precision::of(Where::all, bf16), Precision::of(Where::tensors, e4m3),
                                  Precision::of(Where::all, fp16), Precision::of(Where::fp32, fp32)};
  for (const OperatorModel& model : models()) {
    OperatorProgram p(SumOrder::sequential);
    model.build(p);
    const std::vector<double> inputs = draw_inputs(p, 1, 7, 0);
    std::vector<Precision> stages(p.stages().size(), Precision::of(Where::fp32, fp32));
    Evaluator evaluate(p, stages, {});
    const std::vector<double> wide = evaluate(inputs);
    std::size_t changed = 0;
    for (std::size_t turn = 0; turn < 12; ++turn) {
      const std::size_t stage = turn * 5 % stages.size();
      stages[stage] = precisions[turn % std::size(precisions)];
      const OperatorProgram::Values depending = p.depending_on(stage);
      EXPECT_LT(depending.size(), p.nodes().size()) << p.stages()[stage];
      const std::vector<double> results = evaluate.again(stage, stages[stage], depending);
      EXPECT_EQ(results, Evaluator(p, stages, {})(inputs)) << model.name << ": " << p.stages()[stage];
      changed += results != wide;
    }
    EXPECT_GT(changed, 8u) << model.name;
  }
}

}  // namespace operators_test
}  // namespace halfulp::operators
