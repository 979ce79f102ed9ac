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

#include <algorithm>
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
      {"loss_scaling", {"steps=4", "gradient_steps=4", "train_examples=400", "test_examples=60", "width=16"}},
      {"quantization",
       with({"bits=8", "methods=max", "qat_steps=4", "width=16", "features=256", "outputs=8", "rows=8"})},
      {"recommendation", with({"formats=bf16", "width=16"})},
      {"accumulation",
       {"formats=fp16,e4m3", "lengths=16,64", "harmonic_limit=600", "ones=300", "unit_lengths=64", "trials=2",
        "seeds=2", "known_formats=fp16,bf16"}},
      {"operators", {"formats=bf16", "samples=2", "scales=1", "size=64"}},
      {"position_ids", {"formats=bf16,fp16", "lengths=300,700", "rope_dim=16", "score_pairs=8", "pixels=32"}},
      {"conversions", {"chains=fp32>bf16>e4m3,i32>fp32>bf16", "roundings=nearest-even,to-odd", "samples=1024"}},
      {"attribution",
       {"formats=e4m3-tensor,mxfp8e4m3", "accumulators=fp32,mul=exact;hopper.wgmma.e4m3.fp32", "rows=3", "columns=3",
        "terms=64", "lengths=32", "outliers=1,100"}},
      {"collectives", {"formats=bf16,fp16", "ranks=4,16", "elements=5", "permutations=4"}},
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
    const Config config = config_of(GetParam());
    const auto all = config.parameters();
    const bool trains = std::any_of(all.begin(), all.end(), [](const Parameter& p) { return p.name == "data"; });
    if (trains && !training_report::no_images().empty()) GTEST_SKIP() << training_report::no_images();
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
/// Boost's functions of 113 bits differ in their last digits from version to version: such kinds have a line for each.
const std::multimap<std::string, std::string>& digests() {
  static const std::multimap<std::string, std::string> all{
      {"training sampled_training-2", "4f4dce494785dce9"},
      {"training training-2", "d8c1a5a347ea59c8"},
      {"finetune sampled_training-2", "d9caf14d7ae33a1e"},
      {"finetune training-2", "074a2070a36ee425"},
      {"optimizer sampled_training-2", "8d2acbac57f33848"},
      {"optimizer training-2", "6919cf8ccf8f9dc9"},
      {"loss_scaling sampled_training-2", "3bc476cc1e3749d5"},
      {"loss_scaling training-2", "105ac835b12a4a42"},
      {"quantization sampled_training-2", "370a5336958f59b2"},
      {"quantization training-2", "9b6e1e3173da077e"},
      {"quantization network_methods-1", "66d909310460d8ee"},
      {"quantization network_tests-1", "fa5a06bfa556ce0f"},
      {"recommendation sampled_training-2", "d4f5aa154a0e6db9"},
      {"recommendation training-2", "7c14d647bc6917fb"},
      {"recommendation sensitivities-1", "626551f02f977f6a"},
      {"accumulation harmonic_series-1", "0bf34016ba686978"},
      {"accumulation matrix_units-2", "c23c1520f9446082"},
      {"accumulation ones-1", "c8222acf5d38c4ac"},
      {"accumulation sums-1", "58f8190ecc1f47dd"},
      {"operators operator_gradients-1", "d1e504bfa0519652"},
      {"operators operators-1", "ee37c46b39f1a006"},  // Boost 1.74
      {"operators operators-1", "a47dceb7a74abc95"},  // Boost 1.83
      {"operators inside-1", "0bab94a0035ebdc8"},     // Boost 1.74
      {"operators inside-1", "1b5abe1e8ff3e657"},     // Boost 1.83
      {"operators models-1", "952f41ed90dae326"},
      {"position_ids positions-1", "cd1d39c244ca8418"},
      {"conversions chains-1", "e91c28885b2326c3"},
      {"conversions library_casts-1", "74ded4e3326f32de"},
      {"conversions operations-1", "a7bb896bb6890929"},
      {"attribution channels-1", "731f27c39542e6cb"},
      {"attribution parts-1", "14b1ddfc20245a01"},
      {"attribution promotion-1", "49b370edf73c0e36"},
      {"collectives averages-1", "16ae160bbb1bee30"},
      {"collectives reductions-1", "b6a2ffecacbaf292"},
  };
  return all;
}

TEST_P(EveryExperiment, ChangesItsRecordsOnlyWithTheirVersion) {
  halfulp::tests::TemporaryFolder folder;
  const TrialStore store(folder / "store", TrialStore::IfAbsent::make);
  TrialSource source{&store};
  (void)report_of(GetParam(), &source);
  std::map<std::string, std::vector<std::string>> by_kind;  // in an order that items do not decide
  for (const TrialStore::Entry& entry : store.entries())
    by_kind[entry.key.substr(0, entry.key.find('/'))].push_back(TrialStore::read(entry)["record"].dump());
  for (auto& [kind, all] : by_kind) {
    if (kind.find("_operands-") != std::string::npos) continue;  // threads decide how many are kept
    std::sort(all.begin(), all.end());
    std::string records;
    for (const std::string& record : all) records += record + "\n";
    const std::string name = GetParam().experiment + " " + kind;
    const std::string digest = fmt::format("{:016x}", verify::chunk_digest(std::as_bytes(std::span(records))));
    const auto [first, last] = digests().equal_range(name);
    EXPECT_TRUE(std::any_of(first, last, [&](const auto& row) { return row.second == digest; }))
        << "    {\"" << name << "\", \"" << digest << "\"},";
  }
}

INSTANTIATE_TEST_SUITE_P(Trials, EveryExperiment, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.experiment; });

}  // namespace experiment_trials_test
