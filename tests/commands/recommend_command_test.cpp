// `halfulp recommend` as a user runs it: a report, a policy that a training takes, and one line for each mistake.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/data/npy.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/policy.hpp>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>

namespace recommend_command_test {

namespace fs = std::filesystem;
using halfulp::Json;
using halfulp::tests::Outcome;

class RecommendCommand : public ::testing::Test {
 protected:
  /// On golden images, in trainings of a few steps.
  Outcome recommend(std::vector<std::string> words) const {
    std::vector<std::string> all{HALFULP_COMMAND, "recommend", "--backend", "emulated", "--quiet"};
    const bool trains = std::find(words.begin(), words.end(), "--tensors") == words.end();
    for (const std::string& setting :
         !trains ? std::vector<std::string>{}
                 : std::vector<std::string>{"data=" + std::string(HALFULP_GOLDEN) + "/images", "width=8", "batch=4",
                                            "steps=4", "seeds=1", "train_examples=20", "test_examples=20"})
      all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), {"--out", report.string()});
    all.insert(all.end(), words.begin(), words.end());
    return halfulp::tests::run_program(all);
  }
  /// The mistake gives one line with this part, and nothing is written.
  void refused(const std::vector<std::string>& words, const std::string& part) const {
    halfulp::tests::expect_error(recommend(words), part);
    EXPECT_FALSE(fs::exists(report)) << part;
    EXPECT_FALSE(fs::exists(policy)) << part;
  }

  const halfulp::tests::TemporaryFolder temporary;
  const fs::path report = temporary.path() / "report.json", policy = temporary.path() / "mine.json";
};

TEST_F(RecommendCommand, WritesThePolicyOfItsReport) {
  const Outcome outcome = recommend({"--budget", "60kB", "--formats", "bf16,e4m3", "--policy", policy.string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const Json made = halfulp::read_json(report.string()), written = halfulp::read_json(policy.string());
  EXPECT_EQ(made["config"]["budget"], "60kB");
  EXPECT_EQ(made["config"]["formats"], "bf16,e4m3");
  EXPECT_EQ(Json::parse(made["results"]["recommended"]["rows"][0][1].get<std::string>()), written);
  EXPECT_EQ(halfulp::training::find_policy(policy.string()).name, "recommended");
  fs::remove(report);
  halfulp::tests::expect_error(recommend({"--against", policy.string()}), "the name 'recommended' is that of");
  const Outcome trained = halfulp::tests::run_program(
      {HALFULP_COMMAND, "run",
       "training",      "--backend",
       "emulated",      "--quiet",
       "--out",         (temporary.path() / "t.json").string(),
       "--set",         "policies=fp32," + policy.string(),
       "--set",         "weight_formats=",
       "--set",         "seeds=1",
       "--set",         "steps=2",
       "--set",         "batch=4",
       "--set",         "width=8",
       "--set",         "train_examples=20",
       "--set",         "test_examples=20",
       "--set",         "data=" + std::string(HALFULP_GOLDEN) + "/images"});
  EXPECT_EQ(trained.status, 0) << trained.err;
}

TEST_F(RecommendCommand, ComparesWithWhatItIsGiven) {
  const Outcome outcome = recommend({"--against", "bf16-sr", "--formats", "bf16"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::string policies;
  const Json made = halfulp::read_json(report.string());
  for (const Json& row : made["results"]["comparison"]["rows"]) policies += row[1].get<std::string>() + " ";
  EXPECT_EQ(policies, "fp32 bf16-sr recommended ");
}

TEST_F(RecommendCommand, GivesTensorsAFormat) {
  const fs::path folder = temporary.path() / "tensors";
  fs::create_directories(folder);
  halfulp::write_npy((folder / "w.npy").string(), std::vector<std::uint64_t>{3}, std::vector<float>{1, 2, 3});
  const Outcome outcome = recommend({"--tensors", folder.string(), "--budget", "0.01"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json results = halfulp::read_json(report.string())["results"];
  EXPECT_EQ(results.size(), 1u);
  EXPECT_TRUE(results.contains("tensors"));
}

TEST_F(RecommendCommand, RefusesInOneLine) {
  refused({"--budget", "2"}, "budget: 2; accepted: ");
  refused({"--budget", "5B"}, "budget: mlp takes ");
  refused({"--network", "mpl"}, "did you mean mlp?");
  refused({"--formats", "bf61"}, "formats: unknown format 'bf61'");
  refused({"--against", "O7"}, "policies: unknown policy 'O7'");
  refused({"--tensors", "/nowhere"}, "/nowhere: no such folder");
  refused({"--tensors", ".", "--policy", policy.string()}, "--policy: no policy comes from --tensors");
  refused({"--network", "mlp,cnn", "--policy", policy.string()}, "--policy: mlp,cnn have a policy each");
  refused({"--policy", "/nowhere/mine.json"}, "cannot write /nowhere/mine.json");
  for (const char* const name : {"", "-", "mine.txt"}) refused({"--policy", name}, "a file that ends in .json");
  refused({"--policy", report.string()}, "is the report's file");
  refused({"--set", "tensors=.", "--policy", policy.string()}, "--policy: no policy comes from --tensors");
  refused({"--set", "networks=mlp,cnn", "--policy", policy.string()}, "--policy: mlp,cnn have a policy each");
  refused({"--network", "mlp", "--tensors", "."}, "--network: --tensors trains nothing");
  refused({"--against", "O2", "--tensors", "."}, "--against: --tensors trains nothing");
}

}  // namespace recommend_command_test
