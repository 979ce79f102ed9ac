// `halfulp ledger`: what several references say of one operation, side by side, and where they contradict each other.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/support/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace ledger_command_test {

using namespace halfulp;
using halfulp::tests::Outcome;
using halfulp::tests::run_halfulp;

class LedgerCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  static std::string repeated(const std::string& byte) {
    std::string digest;
    for (int i = 0; i < 16; ++i) digest += byte;
    return digest;
  }
  /// An entry as halfulp verify writes it, of 2^16 pairs.
  static Json entry(const std::string& round, const Json& against, const std::string& digest) {
    const std::string whole = repeated(digest);
    return {{"task",
             {{"operation", "add"},
              {"from", "e4m3"},
              {"to", "e4m3"},
              {"round", round},
              {"overflow", "ieee"},
              {"flush_inputs", false},
              {"tininess", "after"}}},
            {"inputs", {{"kind", "all"}, {"count", 65536}}},
            {"against", against},
            {"compared", 65536},
            {"differing", 0},
            {"digest", whole},
            {"machine", "A CPU"},
            {"date", "2026-11-27T00:00:00Z"}};
  }
  void write(const std::string& name, const Json& entries) const {
    std::ofstream(path(name)) << Json{{"kind", "halfulp ledger"}, {"version", 1}, {"entries", entries}};
  }
  Outcome ledger(std::vector<std::string> words) const {
    words.insert(words.begin(), "ledger");
    return run_halfulp(words);
  }
  const Json oracle{{"reference", "oracle"}}, cpu{{"reference", "x86"}},
      gpu{{"reference", "cuda"}, {"device", "A GPU, driver 1"}};

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(LedgerCommand, WhoAgreesWithWhom) {
  write("a.json", {entry("nearest-even", oracle, "11"), entry("toward-zero", oracle, "22")});
  write("b.json", {entry("nearest-even", gpu, "11"), entry("nearest-even", cpu, "11")});
  const Outcome text = ledger({path("")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out,
            "operation  from  to    inputs  settings  reference  last\n"
            "add        e4m3  e4m3  2^16    1         A CPU      2026-11-27\n"
            "add        e4m3  e4m3  2^16    1         A GPU      2026-11-27\n"
            "add        e4m3  e4m3  2^16    2         rationals  2026-11-27\n"
            "\n"
            "2 settings of 1 operation: of 262,144 cases 0 differ\n"
            "1 were compared with several references: the digests of 0 settings differ\n");
  const Json json = Json::parse(ledger({path("a.json"), path("b.json"), "--json"}).out);
  EXPECT_EQ(json["several"], 1);
  EXPECT_EQ(json["compared"], 4 * 65536);
  EXPECT_EQ(json["operations"][0]["settings"], 2);
  EXPECT_EQ(json["operations"][0]["references"][1],
            Json({{"reference", "A GPU"}, {"asked", "cuda"}, {"settings", 1}, {"last", "2026-11-27T00:00:00Z"}}));
}

TEST_F(LedgerCommand, DigestsThatDiffer) {
  Json sample = entry("nearest-even", cpu, "33");
  sample["inputs"] = {{"kind", "recorded"}, {"count", 65536}, {"of", "recorded:gone"}};
  write("a.json", {entry("nearest-even", oracle, "11"), entry("nearest-even", gpu, "22"), sample});
  const Outcome outcome = ledger({path("a.json")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(outcome.out.ends_with("1 entry of a sample left out\nadd e4m3 e4m3 nearest-even: the digests differ: " +
                                    repeated("11") + " (rationals) " + repeated("22") + " (A GPU)\n"))
      << outcome.out;
}

// Entries of other addends have other digests, and a file that is named twice counts once.
TEST_F(LedgerCommand, PairsWithOtherAddends) {
  for (const char* addends : {"4", "5"})
    ASSERT_EQ(run_halfulp({"verify", "fma", "--format", "e2m1", "--against", "oracle", "--addends", addends, "--quiet",
                           "--ledger", path("mine.json")})
                  .status,
              0);
  Json file = Json::parse(std::ifstream(path("mine.json")));
  Json other = file["entries"][0];  // the same number of other addends
  other["inputs"]["addends"] = {"0x1", "0x2", "0x3", "0x4"};
  other["digest"] = repeated("77");
  file["entries"].push_back(other);
  std::ofstream(path("mine.json")) << file;
  const Outcome outcome = ledger({path("mine.json"), path("./mine.json"), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["operations"].size(), 3u);
  EXPECT_EQ(json["compared"], (4 + 5 + 4) * 256);
}

TEST_F(LedgerCommand, WhatVerifyKeeps) {
  for (const char* format : {"e2m1", "e3m2"})
    ASSERT_EQ(run_halfulp({"verify", "mul", "--format", format, "--against", "oracle", "--round", "all", "--quiet",
                           "--ledger", path("mine.json")})
                  .status,
              0);
  const Json json = Json::parse(ledger({path("mine.json"), "--json"}).out);
  EXPECT_EQ(json["operations"].size(), 2u);
  EXPECT_EQ(json["operations"][0]["inputs"], 256);
  EXPECT_EQ(json["operations"][0]["references"][0]["reference"], "rationals");
  EXPECT_EQ(json["settings"], 14);
}

TEST_F(LedgerCommand, BadInputIsOneLine) {
  const auto refused = [&](const std::string& file, const std::string& why) {
    const Outcome outcome = ledger({path(file)});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  };
  refused("", "a folder without .json files; accepted: one with ledgers");
  refused("none.json", "no such file; accepted: a ledger of halfulp verify, or a folder");
  std::ofstream(path("report.json")) << R"({"schema_version": 2})";
  refused("report.json", "is no ledger of version 1");
  Json broken = entry("nearest-even", oracle, "11");
  broken["inputs"]["count"] = "many";
  write("broken.json", Json::array({broken}));
  const auto odd_entry = [&](const char* pointer, const Json& value) {
    Json odd = entry("nearest-even", oracle, "11");
    odd[Json::json_pointer(pointer)] = value;
    write("odd.json", Json::array({odd}));
    refused("odd.json", "odd.json: entries[0] is no entry that halfulp verify --ledger wrote");
  };
  odd_entry("/task/operation", "nonsense");
  odd_entry("/task/round", Json::array());
  odd_entry("/digest", "hello");
  odd_entry("/inputs", {{"kind", "al"}, {"count", 65536}});
  odd_entry("/inputs/count", 7);
  odd_entry("/inputs", {{"kind", "pairs"}, {"count", 65536}, {"addends", {"0x00"}}});  // of add
  for (const Json& count : {Json(-1), Json(1.5), Json(1e300), Json(~std::uint64_t{0})}) {
    Json odd = entry("nearest-even", oracle, "11");
    odd["compared"] = count;
    write("odd.json", Json::array({odd}));
    refused("odd.json", "odd.json: entries[0] is no entry that halfulp verify --ledger wrote");
  }
  refused("broken.json", "broken.json: entries[0] is no entry that halfulp verify --ledger wrote");
}

}  // namespace ledger_command_test
