// `halfulp check` and `halfulp probe` as a user runs them, and a GPU from recording to replay with the emulation in its
// place.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/support/json.hpp>
#include <halfulp/evidence/devices.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <sstream>

namespace halfulp {
namespace {

namespace fs = std::filesystem;
using testing::expect_refused;
using testing::Outcome;
using testing::run_halfulp;

TEST(CheckCommand, HoldsEverythingOfAGpu) {
  const auto outcome = run_halfulp({"check", "--backend", "rehearsal", "--tiles", "2", "--floats", "100", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["independence"], "emulation");
  std::set<std::string> groups, names;
  for (const Json& check : json["checks"]) {
    groups.insert(check["group"]);
    names.insert(check["name"]);
    EXPECT_EQ(check["differing"], 0) << check["name"];
    if (check["compared"] == 0) {
      EXPECT_EQ(check["verdict"], "skipped");
      EXPECT_NE(check["skipped"], "");
    } else {
      EXPECT_EQ(check["verdict"], "agrees");
    }
  }
  EXPECT_EQ(groups, (std::set<std::string>{"operation", "matrix unit", "whole tile", "sum", "program", "kernel"}));
  for (const char* name :
       {"fma fp16 nearest-even", "exp bf16 nearest-even", "convert fp32 to e4m3 nearest-even saturate",
        "hopper.wgmma.e4m3.fp32", "quantize e4m3 stochastic", "decode bf16"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(CheckCommand, TextSaysWhatIsSkippedOnce) {
  const auto outcome = run_halfulp({"check", "--backend", "x86", "--tiles", "1"}),
             all = run_halfulp({"check", "--backend", "x86", "--tiles", "1", "--all"});
  EXPECT_EQ(outcome.status, find_device("x86").available().yes ? 0 : 3);
  if (outcome.status == 3) GTEST_SKIP() << outcome.err;
  EXPECT_NE(outcome.out.find("matrix unit"), std::string::npos);
  EXPECT_EQ(outcome.out.find("agrees "), std::string::npos) << "what agrees is counted, unless --all is there";
  EXPECT_NE(all.out.find("agrees "), std::string::npos);
}

TEST(CheckCommand, TakesRecordings) {
  const auto outcome = run_halfulp({"check", "--backend", "recorded:amd-zen4", "--tiles", "1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::uint64_t compared = 0;
  const Json json = Json::parse(outcome.out);
  for (const Json& check : json["checks"]) compared += check["compared"].get<std::uint64_t>();
  EXPECT_GT(compared, 300'000u);
}

TEST(CheckCommand, BadInputIsOneLine) {
  const auto refused = [](std::vector<std::string> arguments, int status, const std::string& what) {
    const auto outcome = run_halfulp(std::move(arguments));
    EXPECT_EQ(outcome.status, status);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(halfulp::testing::is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
  };
  refused({"check"}, 2, "--backend is missing");
  refused({"check", "--backend", "emulated"}, 2, "accepted: x86, cuda, recorded:NAME, rehearsal");
  refused({"check", "--backend", "cudda"}, 2, "did you mean cuda?");
  refused({"check", "--backend", "x86", "--tiles", "0"}, 2, "--tiles");
  if (!find_device("cuda").available().yes) refused({"check", "--backend", "cuda"}, 3, "backend 'cuda' is not here: ");
}

TEST(Rehearsal, IsRecordedAndReplayedAsWhatItIs) {
  const testing::TemporaryFolder folder;
  const std::string out = folder / "gpu", report = folder / "report.json";
  const auto recorded = run_halfulp({"record", "--backend", "rehearsal", "--out", out, "--quick", "--quiet"});
  ASSERT_EQ(recorded.status, 0) << recorded.err;
  const auto run = run_halfulp(
      {"run", "underflow", "--set", "count=1000", "--backend", "emulated,rehearsal,recorded:" + out, "--out", report});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run_halfulp({"validate", report}).status, 0);
  std::uint64_t compared = 0;
  const Json json = read_json(report);
  for (const Json& c : json["comparisons"]) {
    EXPECT_EQ(c["independence"], "emulation") << "a rehearsal is no silicon, nor is a recording of it";
    if (c["skipped"].is_null() && c["backend"] == "rehearsal") compared += c["compared"].get<std::uint64_t>();
  }
  EXPECT_GT(compared, 10'000u);
  const auto probed = run_halfulp({"probe", "--backend", "recorded:" + out + ":hopper.wgmma.e4m3.fp32"});
  EXPECT_EQ(probed.status, 0) << probed.err;
  EXPECT_NE(probed.out.find("alignment_bits = 13"), std::string::npos) << probed.out;
}

}  // namespace
}  // namespace halfulp
