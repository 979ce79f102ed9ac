// The experiment "optimizer": what is known of its variants without training, and what tiny trainings must show.
#include "training_report.hpp"

#include <halfulp/experiments/optimizer/optimizer.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace optimizer_experiment_test {

using namespace training_report;
using namespace halfulp::trainings;

TEST(OptimizerVariants, AreNamedOnceAndSayWhatTheyDo) {
  std::set<std::string_view> names;
  for (const OptimizerVariant& v : optimizer_variants()) {
    EXPECT_TRUE(names.insert(v.name).second) << v.name;
    EXPECT_TRUE(v.group.empty() || std::find(std::begin(optimizer_groups), std::end(optimizer_groups), v.group) !=
                                       std::end(optimizer_groups))
        << v.name;
    const training::Policy policy = policy_of(v);
    EXPECT_EQ(policy.name, v.name);
    EXPECT_EQ(training::parse_policy(policy.json, "again").update, policy.update) << v.name;
  }
  const auto policy = [](std::string_view name) {
    for (const OptimizerVariant& v : optimizer_variants())
      if (v.name == name) return policy_of(v);
    throw std::logic_error("no variant " + std::string(name));
  };
  EXPECT_TRUE(policy("fp16-master").update.master_weights);
  EXPECT_FALSE(policy("fp16-alone").update.master_weights);
  EXPECT_EQ(policy("fp16-alone").update.weights, policy("fp16-master").update.weights);
  EXPECT_TRUE(policy("second-int8").update.first.keeps_floats());
  EXPECT_NE(policy("second-int8").update.second.block(), nullptr);
  EXPECT_TRUE(policy("bf16-rounded").update.rounded_constants);
}

TEST(DecayOfCodes, EndsAt2ToTheMinus9) {
  // Half the gap below a power of two is 2^-9 of it; everything else has wider gaps for its size.
  EXPECT_EQ(decay_in_bf16(1e-3, 0.1).changed, 0u);
  EXPECT_EQ(decay_in_bf16(1, 0x1p-9).changed, 0u);
  EXPECT_EQ(decay_in_bf16(1, 0x1p-9).codes, 2u * (65536 / 2 - 128));
  EXPECT_GE(decay_in_bf16(1, 0x1p-9 + 0x1p-20).changed, 2u * 253);
  EXPECT_LE(decay_in_bf16(1, 0x1p-9 + 0x1p-20).changed, 2u * 254);
  // 2^-7 of a normal number is at least one step of its binade.
  EXPECT_GE(decay_in_bf16(1, 0x1p-7).changed, 2u * 254 * 128);
}

const std::vector<std::string> small{"train_examples=256", "test_examples=100", "steps=8",   "intervals=2",
                                     "width=16",           "seeds=1",           "context=8", "batch=16"};
Json tiny(std::vector<std::string> more) {
  more.insert(more.begin(), small.begin(), small.end());
  return report_of("optimizer", more);
}

TEST(OptimizerExperiment, ConstantsOfAdamIn16Bits) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = tiny({"networks=mlp", "groups=eps,betas,decay"});
  expect_no_failure(report);
  const auto of = [&](const char* variant, const char* column) {
    return cell(report, "summary", "variant", variant, column);
  };
  EXPECT_EQ(of("fp16-eps-1e-8", "failed_at"), 1);
  EXPECT_GT(of("fp16-eps-1e-8", "zero_denominators").get<int>(), 0);
  EXPECT_NE(of("fp16-eps-1e-8", "why").get<std::string>().find("by zero"), std::string::npos);
  EXPECT_EQ(of("fp16-eps-1e-3", "failed_at"), nullptr);
  EXPECT_EQ(of("fp16-eps-1e-3", "zero_denominators"), 0);
  EXPECT_GT(of("bf16-rounded", "second_underflowed").get<double>(), 0.2);
  EXPECT_EQ(of("bf16-float", "second_underflowed"), 0.0);
  EXPECT_EQ(verdict(report, "mlp-bf16-beta2"), "pass");
  EXPECT_EQ(verdict(report, "mlp-bf16-decay"), "pass");
  EXPECT_EQ(of("bf16-decay-0", "weight_norm"), of("bf16-decay-0.1", "weight_norm"));
  EXPECT_LT(of("fp32-decay-0.1", "weight_norm"), of("fp32", "weight_norm"));
  EXPECT_EQ(verdict(report, "mlp-e4m3-states-as-good"), "skipped") << "its group was left out";
}

TEST(OptimizerExperiment, DecayThatBf16SeesIsNoClaim) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = tiny({"networks=mlp", "groups=decay", "lr=0.1"});
  expect_no_failure(report);
  EXPECT_EQ(verdict(report, "mlp-bf16-decay"), "skipped");
}

TEST(OptimizerExperiment, StatesAndMasterWeights) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = tiny({"networks=mlp", "groups=master,states"});
  expect_no_failure(report);
  const auto of = [&](const char* variant, const char* column) {
    return cell(report, "summary", "variant", variant, column).get<double>();
  };
  EXPECT_LT(of("bf16-master", "swamped"), of("bf16-alone", "swamped"));
  EXPECT_EQ(of("bf16-states", "second_underflowed"), 0);
  EXPECT_GT(of("e5m2-plain", "second_underflowed"), of("e5m2-states", "second_underflowed"));
  EXPECT_GT(of("second-int8", "second_underflowed"), of("second-e4m3", "second_underflowed"));
  EXPECT_EQ(of("first-int8", "second_underflowed"), 0);
}

TEST(OptimizerExperiment, APlantedStepIsLeftOut) {
  const Json report = tiny({"networks=transformer", "groups=abnormal,embedding", "steps=12", "depth=1"});
  if (report["results"]["summary"]["rows"].empty()) GTEST_SKIP() << report["results"]["data"]["rows"][0][1];
  expect_no_failure(report);
  const auto of = [&](const char* variant, const char* column) {
    return cell(report, "summary", "variant", variant, column);
  };
  EXPECT_EQ(of("planted", "abnormal"), 0);
  EXPECT_EQ(of("planted-skip", "abnormal"), 1);
  EXPECT_EQ(of("skip", "abnormal"), 0);
  EXPECT_EQ(of("skip", "test_loss"), of("fp32", "test_loss")) << "nothing to leave out";
  EXPECT_NE(of("planted", "test_loss"), of("fp32", "test_loss"));
}

TEST(OptimizerExperiment, InstabilityCountsWhatItsTablesSay) {
  const Json report = tiny({"networks=transformer", "groups=spikes", "steps=40", "depth=1", "lr=4", "batch=4"});
  if (report["results"]["summary"]["rows"].empty()) GTEST_SKIP() << report["results"]["data"]["rows"][0][1];
  expect_no_failure(report);
  const auto of = [&](const char* variant, const char* column) {
    return cell(report, "instability", "variant", variant, column);
  };
  std::map<std::string, std::array<int, 2>> spikes;  // of norms, of losses, counted anew
  for (const Json& row : report["results"]["spikes"]["rows"]) { ++spikes[row[0]][row[4] == "loss"]; }
  bool any = false;
  for (const OptimizerVariant& v : optimizer_variants()) {
    if (v.group != "spikes") continue;
    const std::string name(v.name);
    EXPECT_EQ(of(name.c_str(), "norm_spikes"), spikes[name][0]) << name;
    EXPECT_EQ(of(name.c_str(), "loss_spikes"), spikes[name][1]) << name;
    EXPECT_EQ(of(name.c_str(), "left_out") != 0, v.skip > 0 && spikes[name][0] > 0) << name;
    any |= spikes[name][0] + spikes[name][1] > 0;
  }
  EXPECT_TRUE(any) << "a learning rate of 4 is too large";
}

TEST(OptimizerExperiment, RefusesGroupsThatNoNetworkShows) {
  EXPECT_NE(refused("optimizer", {"networks=mlp", "groups=spikes"}).find("transformer or lstm"), std::string::npos);
  EXPECT_NE(refused("optimizer", {"networks=transformer", "groups=eps"}).find("mlp or cnn"), std::string::npos);
}

TEST(OptimizerExperiment, BatchesSeeAsManyExamples) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const std::vector<std::string> own{"networks=mlp",        "groups=batch", "seeds=1",
                                     "train_examples=4096", "width=8",      "test_examples=100"};
  const Json report = report_of("optimizer", own);
  expect_no_failure(report);
  int rows = 0;
  for (const Json& row : report["results"]["batches"]["rows"]) {
    EXPECT_EQ(row[1].get<int>() * row[3].get<int>(), 12288) << row;
    ++rows;
  }
  EXPECT_EQ(rows, 20);
  for (const Json& row : report["results"]["runs"]["rows"]) {
    const std::string variant = row[0];
    if (variant.starts_with("batch-")) {
      EXPECT_EQ(row[5], std::stoi(variant.substr(6))) << "the examples that a step took";
    }
  }
}

}  // namespace optimizer_experiment_test
