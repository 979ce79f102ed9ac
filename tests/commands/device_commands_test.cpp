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
namespace device_commands_test {

namespace fs = std::filesystem;
using tests::expect_refused;
using tests::Outcome;
using tests::run_halfulp;

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
  expect_refused({"check"}, "--backend is missing");
  expect_refused({"check", "--backend", "emulated"}, "accepted: x86, cuda, recorded:NAME, rehearsal");
  expect_refused({"check", "--backend", "cudda"}, "did you mean cuda?");
  expect_refused({"check", "--backend", "foo"}, "accepted: x86, cuda, rehearsal, recorded:");
  expect_refused({"record", "--backend", "foo", "--out", "/nowhere/new"}, "accepted: x86, cuda, rehearsal");
  expect_refused({"check", "--backend", "x86", "--tiles", "0"}, "--tiles");
  if (!find_device("cuda").available().yes)
    expect_refused({"check", "--backend", "cuda"}, "backend 'cuda' is not here: ", 3);
}

TEST(ProbeCommand, SaysWhatItFound) {
  const Outcome outcome = run_halfulp({"probe", "--backend", "emulated:hopper.mma.fp16.fp16"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const auto* line : {"0 answers that no model explains", "length = 16", "alignment_bits = 25",
                           "least_exponent = -21", "answers as hopper.mma.fp16.fp16"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "\n" << outcome.out;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ProbeCommand, JsonSaysTheSame) {
  const Json json = Json::parse(run_halfulp({"probe", "--backend", "emulated:volta.mma.fp16.fp32", "--json"}).out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["unexplained"], 0);
  EXPECT_EQ(json[0]["units"][0], "volta.mma.fp16.fp32");
  const auto& parameters = json[0]["models"][0]["parameters"];
  ASSERT_EQ(parameters.size(), 13u);
  for (const auto& row : parameters) {
    if (row["name"] == "alignment_bits") {
      EXPECT_EQ(row["value"], "23");
      EXPECT_EQ(row["values"], Json::parse(R"([["23", "23"]])"));
      EXPECT_EQ(row["witnesses"].size(), 2u);
    }
    if (row["name"] == "grouping") { EXPECT_EQ(row["because"], "one sum takes all products of the instruction"); }
  }
}

TEST(ProbeCommand, BadInputIsOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"probe"}, {"probe", "--backend", "gpu"}, {"probe", "--backend", "recorded:nothing"}})
    expect_refused(arguments);
  expect_refused({"probe", "--backend", "emulated:hopper.mma.fp16.fp23"}, "did you mean hopper.mma.fp16.fp");
  for (const char* command : {"probe", "check", "record"}) {
    std::vector<std::string> arguments{command, "--backend", "GPU"};
    if (std::string_view(command) == "record") arguments.insert(arguments.end(), {"--out", "never-made"});
    expect_refused(arguments, "unknown backend 'GPU'; did you mean cuda? accepted: ");
  }
  expect_refused({"probe", "--backend", "cpu"}, "did you mean x86?");
}

TEST(ProbeCommand, QuietSaysWhichUnitsAnswerSo) {
  EXPECT_EQ(run_halfulp({"probe", "--backend", "emulated:volta.mma.fp16.fp32", "--quiet"}).out,
            "emulated:volta.mma.fp16.fp32: answers as volta.mma.fp16.fp32\n");
}

TEST(ProbeCommand, DescribesAUnitOfYourOwn) {
  const std::string unit = R"({"based_on": "volta.mma.fp16.fp32", "k": 8})",
                    text = run_halfulp({"probe", "--unit-file", "-"}, unit).out;
  EXPECT_NE(text.find("model of a unit of your own"), std::string::npos) << text;
}

TEST(ProbeCommand, AMissingDeviceIsNoBadInput) {
  if (find_device("cuda").available().yes) GTEST_SKIP() << "there is one";
  expect_refused({"probe", "--backend", "cuda"}, "", 3);
}

TEST(Rehearsal, IsRecordedAndReplayedAsWhatItIs) {
  const tests::TemporaryFolder folder;
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

}  // namespace device_commands_test
}  // namespace halfulp
