// Experiments by trials: the same report with and without a store, in parts, and records that change only with their
// version.
#include "temporary_folder.hpp"
#include "training_report.hpp"

#include <halfulp/evidence/devices.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/files.hpp>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace experiment_trials_test {

using namespace halfulp;

struct Case {
  std::string experiment;
  std::vector<std::string> settings;
};

const std::vector<Case>& cases() {
  static const std::vector<std::string> few{"seeds=2", "steps=6", "train_examples=400", "test_examples=60"};
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), few.begin(), few.end());
    return more;
  };
  static const std::vector<Case> all{
      {"training",
       with({"networks=mlp", "policies=fp32,amp-fp16", "weight_formats=bf16", "learning_rates=1e-3", "width=16"})},
      {"finetune", with({"policies=fp32,pure-bf16", "tune_steps=4", "width=16"})},
      {"optimizer", with({"networks=mlp,transformer", "groups=eps,abnormal", "width=16"})},
      {"loss_scaling", {"steps=4", "gradient_steps=4", "train_examples=400", "test_examples=60"}},
      {"quantization", with({"bits=8", "methods=max", "qat_steps=4", "width=16"})},
      {"recommendation", with({"formats=bf16", "width=16"})},
      {"accumulation",
       {"formats=fp16,e4m3", "lengths=16,64", "harmonic_limit=600", "ones=300", "unit_lengths=64", "trials=2",
        "seeds=2", "known_formats=fp16,bf16"}},
  };
  return all;
}

/// The settings that the experiment has.
Config config_of(const Case& c) {
  Config config(find_experiment(c.experiment).parameters());
  for (const std::string& setting : c.settings) {
    const std::string name = setting.substr(0, setting.find('='));
    for (const Parameter& p : config.parameters())
      if (p.name == name) config.set(setting);
  }
  return config;
}

/// Results, claims and comparisons: what does not say when and where.
Json report_of(const Case& c, const TrialSource* source, int threads = 2) {
  RunOptions options;
  options.backends = {&find_device("x86")};
  options.threads = threads;
  options.source = source;
  Json report = run_experiment(find_experiment(c.experiment), config_of(c), options).to_json();
  report.erase("environment");
  return report;
}

class EveryExperiment : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().experiment != "accumulation" && !training_report::no_images().empty())
      GTEST_SKIP() << training_report::no_images();
  }
};

TEST_P(EveryExperiment, SaysTheSameWithAStore) {
  halfulp::tests::TemporaryFolder folder;
  const Json plain = report_of(GetParam(), nullptr);
  TrialStore store(folder / "whole", TrialStore::IfAbsent::make), parts(folder / "parts", TrialStore::IfAbsent::make);
  store.damaged = parts.damaged = [](const std::string& line) { ADD_FAILURE() << line; };
  std::size_t computed = 0;
  TrialSource source{&store};
  source.computed = [&](const std::string&, const Trial&) { ++computed; };
  EXPECT_EQ(report_of(GetParam(), &source), plain);
  EXPECT_GT(computed, 0u);
  computed = 0;
  EXPECT_EQ(report_of(GetParam(), &source, 1), plain);
  EXPECT_EQ(computed, 0u) << "all were there";

  // In parts, the last one first, again and again until no stage lacks any.
  source.store = &parts;
  bool done = false;
  for (int round = 0; round < 60 && !done; ++round)
    for (const std::size_t part : {2, 0, 1}) {
      source.computes = [&](const std::string&, std::size_t place) { return place % 3 == part; };
      try {
        EXPECT_EQ(report_of(GetParam(), &source), plain);
        done = true;
      } catch (const TrialsMissing&) {}
    }
  EXPECT_TRUE(done);
}

/// The digest of all records of each kind. One that changes under a version that stays means that stores give results
/// which this program would not compute: raise the version where the kind is declared, then change the line here.
const std::map<std::string, std::string>& digests() {
  static const std::map<std::string, std::string> all{
      {"training sampled_training-1", "37820ba1912f665d"},
      {"training sampled_training_operands-1", "88b10fd2cfaeba39"},
      {"finetune sampled_training-1", "3b01ceb7bd21f4b4"},
      {"finetune sampled_training_operands-1", "9689145d407e1aa0"},
      {"optimizer sampled_training-1", "e70efe980a0ae3f9"},
      {"optimizer sampled_training_operands-1", "07c21b41d27f29b8"},
      {"loss_scaling sampled_training-1", "79abfa8e7593f85c"},
      {"loss_scaling sampled_training_operands-1", "416bdcf9b6addacf"},
      {"quantization sampled_training-1", "370a5336958f59b2"},
      {"recommendation sampled_training-1", "cc9ac6b1943da2c6"},
      {"recommendation sampled_training_operands-1", "16da3d9147e33d1c"},
      {"training training-1", "02f3708b90f345ea"},
      {"finetune training-1", "9bafca9023cde56d"},
      {"optimizer training-1", "95a070a737d76905"},
      {"loss_scaling training-1", "fa45c83e52517bff"},
      {"quantization training-1", "fbf5779566e9fe15"},
      {"recommendation training-1", "f318eb0367dee775"},
      {"accumulation harmonic_series-1", "94ec735a65cbe667"},
      {"accumulation harmonic_series_operands-1", "95f523e307678a9b"},
      {"accumulation matrix_units-1", "3797432c37115cc8"},
      {"accumulation ones-1", "d2abf2c58ae0d496"},
      {"accumulation ones_operands-1", "f20a495ffccb57c7"},
      {"accumulation sums-1", "f2effb230a747115"},
      {"accumulation sums_operands-1", "3fc27febd17b923a"},
  };
  return all;
}

TEST_P(EveryExperiment, ChangesItsRecordsOnlyWithTheirVersion) {
  halfulp::tests::TemporaryFolder folder;
  const TrialStore store(folder / "store", TrialStore::IfAbsent::make);
  TrialSource source{&store};
  (void)report_of(GetParam(), &source);
  std::map<std::string, std::string> text;
  for (const TrialStore::Entry& entry : store.entries())
    text[entry.key.substr(0, entry.key.find('/'))] += TrialStore::read(entry)["record"].dump() + "\n";
  for (const auto& [kind, records] : text) {
    const std::string name = GetParam().experiment + " " + kind;
    const std::string digest = fmt::format("{:016x}", verify::chunk_digest(std::as_bytes(std::span(records))));
    const auto expected = digests().find(name);
    EXPECT_TRUE(expected != digests().end() && expected->second == digest)
        << "    {\"" << name << "\", \"" << digest << "\"},";
  }
}

INSTANTIATE_TEST_SUITE_P(Trials, EveryExperiment, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.experiment; });

}  // namespace experiment_trials_test
