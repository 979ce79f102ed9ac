// Where only operands are wanted, experiments leave out much: what they meet is the same.
#include "training_report.hpp"

namespace operands_test {

using namespace training_report;

Trace trace_of(const char* name, const std::vector<std::string>& settings, std::size_t limit, bool only_operands) {
  const Experiment& experiment = find_experiment(name);
  Config config(experiment.parameters());
  for (const std::string& setting : settings) config.set(setting);
  Trace trace(limit);
  Report report(name, "test", config);
  Run run{report, trace, [](double) {}};
  run.only_operands = only_operands;
  experiment.run(config, run);
  return trace;
}

/// `limit` operands a channel: 1000 are full soon, 100,000 never.
void expect_same_operands(const char* name, const std::vector<std::string>& settings, std::size_t limit) {
  const Trace whole = trace_of(name, settings, limit, false), only = trace_of(name, settings, limit, true);
  ASSERT_EQ(whole.channels().size(), only.channels().size()) << name;
  EXPECT_FALSE(whole.channels().empty()) << name;
  for (std::size_t i = 0; i < whole.channels().size(); ++i) {
    const Channel &x = whole.channels()[i], &y = only.channels()[i];
    EXPECT_EQ(x.task.description(), y.task.description()) << name;
    EXPECT_EQ(x.a, y.a) << name << ' ' << x.task.description();
    EXPECT_EQ(x.b, y.b) << name << ' ' << x.task.description();
    EXPECT_EQ(x.c, y.c) << name << ' ' << x.task.description();
  }
}

TEST(OperandsOfExperiments, AreThoseOfWholeRuns) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const std::vector<std::string> tiny{"train_examples=256", "test_examples=100", "steps=8", "intervals=4",
                                      "width=16",           "seeds=2",           "batch=16"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), tiny.begin(), tiny.end());
    return more;
  };
  for (const std::size_t limit : {1000, 100'000}) {
    expect_same_operands("training", with({"policies=fp32,amp-fp16,pure-bf16,fp8-hybrid"}), limit);
    expect_same_operands("optimizer", with({"networks=mlp", "groups=eps,master,states"}), limit);
    expect_same_operands("finetune", with({"policies=fp32,amp-fp16,pure-bf16", "tune_steps=8"}), limit);
  }
  expect_same_operands("accumulation", {"lengths=16,64", "trials=1", "ones=100", "harmonic_limit=100"}, 1000);
  expect_same_operands("operators", {"samples=1", "size=64"}, 1000);
  expect_same_operands("quantization", with({"networks=mlp", "rows=4", "outputs=4"}), 100'000);
}

}  // namespace operands_test
