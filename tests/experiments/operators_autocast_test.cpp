// What the experiment `operators` derives from errors: the list for autocast, beside the published ones, and precisions
// of whole models.
#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::operators {
namespace operators_autocast_test {

TEST(Autocast, criterion_takes_the_cheapest_within_the_budget) {
  OperatorSettings s;
  s.formats = {{"fp16", fp16}};
  s.scales = {1, 2};
  // [scale][candidate]: fp32, all, tensors; relative errors in units of 2^-11.
  const auto errors = [](double units, std::size_t non_finite = 0) {
    OperatorErrors e;
    e.exact_squares = 1, e.squares = Real(units * 0x1p-11) * Real(units * 0x1p-11), e.outputs = 10,
    e.non_finite = non_finite;
    return e;
  };
  const auto where = [&](const SampleErrors& measured) {
    return derive(s, std::vector<SampleErrors>{measured}, 0, 4).where;
  };
  EXPECT_EQ(where({{errors(0), errors(3), errors(1)}, {errors(0), errors(4), errors(1)}}), Where::all);
  EXPECT_EQ(where({{errors(0), errors(3), errors(1)}, {errors(0), errors(4.1), errors(1)}}), Where::tensors);
  EXPECT_EQ(where({{errors(0), errors(3, 1), errors(1)}, {errors(0), errors(3), errors(1)}}), Where::tensors);
  EXPECT_EQ(where({{errors(0), errors(5), errors(1)}, {errors(0), errors(3), errors(1, 2)}}), Where::fp32);
  const Derived d = derive(
      s, std::vector<SampleErrors>(1, {{errors(0), errors(5), errors(1)}, {errors(0), errors(7), errors(2)}}), 0, 4);
  EXPECT_NEAR(d.all.units, 7, 1e-12);
  EXPECT_EQ(d.all.scale, 2);
  EXPECT_EQ(compare(Listed::fp32, Where::tensors), Agreement::on_arithmetic);
  EXPECT_EQ(compare(Listed::fp32, Where::all), Agreement::differs);
  EXPECT_EQ(compare(Listed::lower, Where::tensors), Agreement::agrees);
  EXPECT_EQ(compare(Listed::lower, Where::fp32), Agreement::differs);
  EXPECT_EQ(compare(Listed::refused, Where::fp32), Agreement::agrees);
}

TEST(Autocast, the_worst_sample_decides_and_close_calls_are_marked) {
  OperatorSettings s;
  s.formats = {{"fp16", fp16}};
  s.scales = {1};
  const auto sample = [](double all, double tensors) {
    SampleErrors e(1, std::vector<OperatorErrors>(3));
    for (std::size_t c = 0; c < 3; ++c) {
      const double units = c == 0 ? 0 : c == 1 ? all : tensors;
      e[0][c].exact_squares = 1, e[0][c].squares = Real(units * 0x1p-11) * Real(units * 0x1p-11), e[0][c].outputs = 1;
    }
    return e;
  };
  const auto judge = [&](const std::vector<SampleErrors>& samples) {
    return std::pair(derive(s, samples, 0, 4).where, firmness(s, samples, 0, 4));
  };
  const auto [fine, clear] = judge({sample(0.5, 0.5), sample(1.9, 0.5)});
  EXPECT_EQ(fine, Where::all);
  EXPECT_EQ(clear.agree, 2u);
  EXPECT_FALSE(clear.borderline);
  EXPECT_NEAR(clear.least, 0.5, 1e-12);
  const auto [one_bad, divided] = judge({sample(1, 0.5), sample(1, 0.5), sample(90, 0.5)});
  EXPECT_EQ(one_bad, Where::tensors);
  EXPECT_EQ(divided.agree, 1u);
  EXPECT_TRUE(divided.borderline);
  EXPECT_TRUE(judge({sample(3, 0.5), sample(3, 0.5)}).second.borderline)
      << "half the budget would do for FP32 inside alone";
  EXPECT_TRUE(judge({sample(5, 0.5), sample(7, 0.5)}).second.borderline) << "twice the budget would do";
  EXPECT_FALSE(judge({sample(9, 0.5), sample(70, 0.5)}).second.borderline);
}

TEST(Autocast, binary_cross_entropy_by_probabilities_needs_fp32) {
  // Confident wrong predictions are among the examples: a probability next to 1 with label 0 is 1 in 16 bits.
  OperatorSettings s;
  s.formats = {{"fp16", fp16}, {"bf16", bf16}};
  s.scales = {1, 16};
  s.size = 1024;
  Trace trace(0);
  const Config config({});
  Report report("operators", "", config);
  halfulp::Run run{report, trace, [](double) {}};
  const auto table = operator_table();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    s.seed = seed, s.samples = 2;
    const AllErrors errors = measure_errors(s, run, 1);
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].name == "layer-norm") {
        EXPECT_EQ(errors[i][0][1][1].overflow, ElementaryOperation::fma) << "fp16: 1024 squares of 16 are beyond 65504";
        EXPECT_EQ(errors[i][0][1][1].vanished, errors[i][0][1][1].outputs);
        EXPECT_FALSE(errors[i][0][0][1].overflow);
      }
      if (table[i].name != "bce") continue;
      for (const std::size_t f : {0u, 1u})
        EXPECT_EQ(derive(s, errors[i], f, 4).where, Where::fp32) << s.formats[f].name << " seed " << seed;
    }
  }
}

TEST(Autocast, every_listed_operator_is_in_the_table_once) {
  for (const ListedOperator& row : listed_operators()) {
    EXPECT_TRUE(std::any_of(operator_table().begin(), operator_table().end(), [&](const Operator& op) {
      return op.name == row.name;
    })) << row.name;
    EXPECT_EQ(find_listed(row.name)->function, row.function);
  }
  EXPECT_FALSE(find_listed("last-layer"));
}

TEST(Graph, lists_give_stages_their_precision) {
  for (const OperatorModel& model : models()) {
    OperatorProgram p(SumOrder::sequential);
    model.build(p);
    for (const std::string& stage : p.stages()) EXPECT_NE(operator_of(stage), "") << stage;
  }
  OperatorProgram p(SumOrder::sequential);
  models()[1].build(p);
  const auto stages = by_list(p, 0, fp16);
  const auto tensors = [&](std::string_view name) {
    for (std::size_t i = 0; i < p.stages().size(); ++i)
      if (p.stages()[i] == name) return stages[i].tensors;
    throw std::invalid_argument(std::string(name));
  };
  for (const char* name : {"linear-query", "attention-scores", "attention-values", "gelu", "linear-last"})
    EXPECT_EQ(tensors(name), fp16) << name;
  for (const char* name : {"embedding", "layer-norm-1", "softmax", "residual-1", "log-softmax"})
    EXPECT_EQ(tensors(name), fp32) << name;
}

TEST(Graph, decisions_are_the_first_choices_within_the_budget) {
  OperatorProgram p(SumOrder::sequential);
  models()[0].build(p);
  OperatorSettings s;
  const auto all = choices({{"bf16", bf16}, {"e4m3", e4m3}});
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].format, "e4m3");
  EXPECT_EQ(all[4].where, Where::fp32);
  const auto decisions = cheapest(p, all, s, 0.02);
  ASSERT_EQ(decisions.size(), p.stages().size());
  // Again, one decision at a time: what was taken is within the budget, what is cheaper is not.
  const auto inputs = draw_inputs(p, 1, s.seed, 0);
  const auto exact = exact_outputs(p, inputs);
  const auto error = [&](const std::vector<Precision>& stages) {
    double squares = 0, whole = 0;
    const auto y = Evaluator(p, stages, {})(inputs);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double e = static_cast<double>(exact[i]);
      if (!std::isfinite(y[i])) return HUGE_VAL;
      squares += (y[i] - e) * (y[i] - e), whole += e * e;
    }
    return std::sqrt(squares / whole);
  };
  std::vector<Precision> stages(p.stages().size(), Precision::of(Where::fp32, fp32));
  bool some_cheap = false;
  for (const Decision& d : decisions) {
    for (std::size_t c = 0; c < d.choice; ++c) {
      stages[d.stage] = all[c].precision;
      EXPECT_GT(error(stages), 0.02) << p.stages()[d.stage];
    }
    stages[d.stage] = all[d.choice].precision;
    EXPECT_NEAR(error(stages), d.error, 1e-9);
    EXPECT_LE(d.error, 0.02);
    some_cheap = some_cheap || d.choice < 2;
  }
  EXPECT_TRUE(some_cheap);
}

}  // namespace operators_autocast_test
}  // namespace halfulp::operators
