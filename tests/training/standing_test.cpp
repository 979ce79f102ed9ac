// How one variant stands to another: differences by hand, intervals that cover what they should, verdicts.
#include <halfulp/data/distributions.hpp>
#include <halfulp/training/runs/standing.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace standing_test {

using namespace halfulp;
using namespace halfulp::trainings;

/// Trials whose examples are right as the strings say.
Spread answers(const std::vector<std::string>& trials) {
  Spread spread;
  for (const std::string& trial : trials) {
    training::TestResult result;
    for (const char c : trial) {
      result.examples.push_back({c == '1' ? 1.0 : 0.0, c == '1' ? 0.5 : 2.0});
      result.accuracy += (c == '1') / static_cast<double>(trial.size());
      result.loss += result.examples.back().loss / static_cast<double>(trial.size());
    }
    spread.add(result);
  }
  return spread;
}

TEST(Standing, OneSeedByHand) {
  // Differences 1, 0, -1, 1, 0, 0, 0, 1: mean 1/4, squares about it 3.5, variance of the mean 3.5 / 7 / 8 = 1/16.
  const Standing s = standing(answers({"11010001"}), answers({"01100000"}));
  EXPECT_EQ(s.difference, 0.25);
  EXPECT_NEAR(s.doubt, 2.364624 / 4, 1e-6) << "the 97.5 % quantile of Student's t with 7 degrees of freedom";
}

TEST(Standing, SeedsWithoutExamplesByHand) {
  Spread a, b;
  for (const double x : {0.8, 0.9, 0.7}) a.trials.push_back({x, 1 - x, false, {}});
  for (const double x : {0.75, 0.8, 0.6}) b.trials.push_back({x, 1 - x, false, {}});
  const Standing s = standing(a, b);  // 0.05, 0.1, 0.1: mean 1/12, variance of the mean 1/3600
  EXPECT_NEAR(s.difference, 1.0 / 12, 1e-12);
  EXPECT_NEAR(s.doubt, 4.302653 / 60, 1e-6);
  EXPECT_NEAR(standing(a, b, Measure::loss).difference, -1.0 / 12, 1e-12);
  EXPECT_EQ(standing({}, b).doubt, 0);
}

TEST(Standing, WhatIsTheSameIsNotWorse) {
  const Spread a = answers({"1101", "1011"});
  EXPECT_EQ(standing(a, a).difference, 0);
  EXPECT_EQ(standing(a, a).doubt, 0);
  EXPECT_EQ(verdict(a, a, 0), "within");
  EXPECT_EQ(judge_worse(a, a, 0, "itself").verdict, Verdict::differs);
  EXPECT_EQ(judge_no_worse(a, a, 0, "itself").verdict, Verdict::pass);
  EXPECT_EQ(judge_repair(a, a, a, 0, "itself").verdict, Verdict::skipped);
}

TEST(Standing, Verdicts) {
  const std::string right(400, '1'), wrong(400, '0'), some = std::string(390, '1') + std::string(10, '0');
  const Spread good = answers({right, right, right}), bad = answers({wrong, right, wrong}), less = answers({some});
  EXPECT_EQ(verdict(bad, good, 0.005), "cannot tell") << "three seeds that differ by everything";
  EXPECT_EQ(judge_no_worse(bad, good, 0.005, "good").verdict, Verdict::skipped);
  EXPECT_EQ(verdict(less, answers({right}), 0.005), "below");
  EXPECT_EQ(verdict(less, answers({right}), 0.05), "within");
  EXPECT_EQ(verdict(less, answers({right}), 0.02, Measure::loss), "above");
  EXPECT_EQ(judge_worse(less, answers({right}), 0.005, "all").verdict, Verdict::pass);
  EXPECT_EQ(judge_repair(answers({right}), less, answers({right}), 0.005, "all").verdict, Verdict::pass);
  EXPECT_EQ(judge_as_good(less, answers({right}), 0.05, 0.02, "all").verdict, Verdict::differs) << "its loss";
  Spread failed = good;
  failed.trials[1] = {0, std::nan(""), true, {}};
  EXPECT_EQ(verdict(failed, good, 1), "failed");
  EXPECT_EQ(failed.failed(), 1u);
  EXPECT_TRUE(std::isnan(standing(failed, good, Measure::loss).difference));
  // By a failed reference nothing is judged.
  for (const Judgement& j :
       {judge_no_worse(good, failed, 1, "it"), judge_worse(good, failed, 1, "it"), judge_loss(good, failed, 1, "it"),
        judge_repair(good, good, failed, 1, "it"), judge_as_good(failed, failed, 1, 1, "it")})
    EXPECT_EQ(j.verdict, Verdict::skipped) << j.reason;
  EXPECT_EQ(judge_no_worse(good, failed, 1, "it").reason,
            "1 of 3 trainings of it failed: there is nothing to compare with");
}

/// Losses of 10^3, 10^9 and 10^12 scatter so much that an interval about their mean holds 0.
TEST(Standing, LossesThatExplodeAreAbove) {
  Spread good, exploded;
  for (const double loss : {0.5, 0.6, 0.4}) good.trials.push_back({0.8, loss, false, {}});
  for (const double loss : {1e3, 1e9, 1e12}) exploded.trials.push_back({0.8, loss, false, {}});
  EXPECT_GT(standing(exploded, good, Measure::loss).doubt, standing(exploded, good, Measure::loss).difference);
  EXPECT_EQ(verdict(exploded, good, 0.02, Measure::loss), "above");
  EXPECT_EQ(verdict(good, exploded, 0.02, Measure::loss), "cannot tell");
  exploded.trials[1].loss = 0.6;
  EXPECT_EQ(verdict(exploded, good, 0.02, Measure::loss), "cannot tell") << "one seed has not";
}

TEST(Standing, VerdictsAreCountedWithoutReferences) {
  Json table = Json::parse(R"({"columns": [{"name": "policy"}, {"name": "to_fp32"}, {"name": "doubt"},
                                           {"name": "verdict"}], "rows": []})");
  const auto words = [&] {
    const Json results{{"summary", table}};
    return verdicts_finding(ReportTables(results), "policy", "fp32");
  };
  EXPECT_EQ(verdicts_finding(ReportTables(Json::object()), "policy", "fp32"), "");
  table["rows"].push_back({"bf16-sr", nullptr, nullptr, nullptr});
  EXPECT_EQ(words(), "") << "nothing to compare with";
  table["rows"] = Json::array();
  table["rows"].push_back({"fp32", 0, 0, "within"});
  EXPECT_EQ(words(), "") << "a reference alone";
  table["rows"].push_back({"O1", 0, 0, "within"});  // it answers as the reference does
  table["rows"].push_back({"O3", -0.9, 0.02, "failed"});
  EXPECT_EQ(words(), "1 of 2 match fp32, 1 fails");
  table["rows"].push_back({"a", -0.9, 0.02, "failed"});
  table["rows"].push_back({"b", -0.3, 0.02, "below"});
  EXPECT_EQ(words(), "1 of 4 match fp32, 2 fail");
  table["rows"].push_back({"c", -0.01, 0.02, "cannot tell"});
  EXPECT_EQ(words(), "1 of 5 match fp32, 2 fail, 1 undecided");
  table["rows"].push_back({"d", -0.01, 0.02, "cannot tell"});
  EXPECT_EQ(words(), "1 of 6 match fp32, 2 fail, 2 undecided");
}

/// Of intervals for a difference that is known, 95 of 100 hold it: seeds and examples have effects of their own.
TEST(Standing, IntervalsHoldTheTruth) {
  constexpr std::size_t trials = 400, examples = 300;
  const double truth = 0.03;
  for (const std::size_t seeds : {2u, 3u, 6u}) {
    std::size_t held = 0;
    for (std::size_t t = 0; t < trials; ++t) {
      Spread a, b;
      const auto noise = [&](std::uint64_t stream, std::size_t i) { return normal_sample(t + 1, stream, i); };
      for (std::size_t s = 0; s < seeds; ++s) {
        training::TestResult x, y;
        for (std::size_t i = 0; i < examples; ++i) {
          const double d = truth + 0.01 * noise(1, s) + 0.2 * noise(2, i) + 0.3 * noise(3, s * examples + i);
          x.examples.push_back({d, 0}), y.examples.push_back({0, 0});
          x.accuracy += d / examples;
        }
        a.add(x), b.add(y);
      }
      const Standing s = standing(a, b);
      held += std::fabs(s.difference - truth) <= s.doubt;
    }
    EXPECT_GE(held, trials * 92 / 100) << seeds << " seeds";
    EXPECT_LE(held, trials * 99 / 100) << seeds << " seeds: too wide";
  }
}

}  // namespace standing_test
