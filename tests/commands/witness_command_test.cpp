// `halfulp witness` as a user runs it. eval and mma compute its test vectors.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

namespace witness_command_test {

using halfulp::tests::expect_refused;
using halfulp::tests::run_halfulp;
using nlohmann::json;

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

/// The commands in the answer agree with its lines.
void check_vectors(const json& answer) {
  for (const char* side : {"a", "b"}) {
    const json& result = answer["witness"][side];
    std::vector<std::string> command = words(result["command"]);
    command.erase(command.begin());
    const auto checked = run_halfulp(command, result["test_vector"].get<std::string>() + "\n");
    EXPECT_EQ(checked.status, 0) << result << checked.err;
    EXPECT_NE(checked.out.find("1 checked, 0 differ"), std::string::npos) << checked.out;
  }
}

TEST(WitnessCommand, DerivesBothResults) {
  const auto found = run_halfulp({"witness", "add:e4m3", "add:e4m3:toward-zero"});
  EXPECT_EQ(found.status, 0);
  for (const char* part :
       {"all that are smaller, none of which differs", "a + b = ", "between 0x", "of the way", "rounded nearest-even",
        "rounded toward-zero", "halfulp eval add --format e4m3 --round toward-zero --check"})
    EXPECT_NE(found.out.find(part), std::string::npos) << part << '\n' << found.out;
  check_vectors(json::parse(run_halfulp({"witness", "add:e4m3", "add:e4m3:toward-zero", "--json"}).out));
  check_vectors(json::parse(run_halfulp({"witness", "convert:fp16:e5m2", "convert:fp16:e5m2:to-odd", "--json"}).out));
}

TEST(WitnessCommand, NansAreOneUnlessAskedFor) {
  const std::vector<std::string> words{"witness", "ml_dtypes:bf16:e5m2", "pytorch:bf16:e5m2", "--quiet"};
  const auto lenient = run_halfulp(words);
  EXPECT_EQ(lenient.status, 0);
  EXPECT_NE(lenient.out.find("65,536 cases looked at, NaN equal to NaN: all of them\n"), std::string::npos)
      << lenient.out;
  std::vector<std::string> strict = words;
  strict.push_back("--strict-nan");
  const auto found = run_halfulp(strict);
  EXPECT_NE(found.out.find("NaN  "), std::string::npos) << found.out;
  EXPECT_EQ(found.out.find("NaN equal to NaN"), std::string::npos) << found.out;
}

// A unit makes +0 of products that are all -0, a sum of products -0: that hides where they round differently.
TEST(WitnessCommand, ZerosAreOneIfAskedFor) {
  const std::vector<std::string> words{"witness", "dot:hopper.mma.fp16.fp32", "dot:in=fp16,acc=fp32",
                                       "--json",  "--cases=100000",           "--quiet"};
  const auto results = [](const std::vector<std::string>& command) {
    const json found = json::parse(run_halfulp(command).out)["witness"];
    return std::pair(found["a"]["value"], found["b"]["value"]);
  };
  EXPECT_EQ(results(words).first, 0.0);
  std::vector<std::string> alike = words;
  alike.push_back("--any-zero");
  const auto [a, b] = results(alike);
  EXPECT_NE(a, b);
  const auto profiles = run_halfulp({"witness", "ml_dtypes:fp16:e4m3fnuz", "fnuz:fp16:e4m3fnuz", "--any-zero"});
  EXPECT_EQ(profiles.status, 0) << profiles.err;
  EXPECT_NE(profiles.out.find(", -0 equal to +0: all"), std::string::npos) << profiles.out;
}

TEST(WitnessCommand, AUnitBesideDotProducts) {
  const auto refused = run_halfulp({"witness", "dot:fp16", "hopper.mma.fp16.fp16"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("; accepted: two with the same operands and result, as dot:hopper.mma.fp16.fp16 has\n"),
            std::string::npos)
      << refused.err;
}

TEST(WitnessCommand, ProfilesAndUnits) {
  const auto cast = run_halfulp({"witness", "ml_dtypes:bf16:e4m3", "onnx:bf16:e4m3"});
  EXPECT_NE(cast.out.find("0x7f NaN  by overflow"), std::string::npos) << cast.out;
  EXPECT_NE(cast.out.find("beyond the largest, 0x7e 448"), std::string::npos) << cast.out;
  const json unit = json::parse(run_halfulp({"witness", "volta.mma.fp16.fp32", "hopper.mma.fp16.fp32", "--json"}).out);
  EXPECT_FALSE(unit["exhaustive"].get<bool>());
  check_vectors(unit);
}

TEST(WitnessCommand, UnitsOfFilesAndUnitsWithScales) {
  const halfulp::tests::TemporaryFolder folder;
  const std::string file = (folder.path() / "my unit.json").string();
  std::ofstream(file) << R"({"based_on": "hopper.mma.fp16.fp32", "alignment_bits": 20})";
  const auto text = run_halfulp({"witness", file, "hopper.mma.fp16.fp32"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("' | halfulp mma --unit-file '" + file + "' --check\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("' | halfulp mma --unit hopper.mma.fp16.fp32 --check\n"), std::string::npos) << text.out;
  std::ofstream(file) << R"({"based_on": "blackwell.tcgen05.nvfp4.fp32", "alignment_bits": 20})";
  const auto scaled = run_halfulp({"witness", file, "blackwell.tcgen05.nvfp4.fp32", "--json"});
  const json answer = json::parse(scaled.out);
  EXPECT_EQ(answer["witness"]["operands"].back()["name"], "scale of b");
  for (const char* side : {"a", "b"}) {
    const bool own = std::string(side) == "a";
    const std::string line = answer["witness"][side]["test_vector"].get<std::string>() + "\n";
    EXPECT_EQ(run_halfulp(
                  {"mma", own ? "--unit-file" : "--unit", own ? file : "blackwell.tcgen05.nvfp4.fp32", "--check"}, line)
                  .out,
              "1 checked, 0 differ\n");
  }
  expect_refused({"witness", (folder.path() / "none.json").string(), "hopper.mma.fp16.fp32"});
  const auto unlike = run_halfulp({"witness", "blackwell.tcgen05.mxe4m3.fp32", "hopper.wgmma.e4m3.fp32"});
  EXPECT_NE(unlike.err.find("mxe4m3.fp32 takes scales, hopper.wgmma.e4m3.fp32 does not; accepted: two with"),
            std::string::npos)
      << unlike.err;
}

TEST(WitnessCommand, SumsShowWhatTheyAreAfterEachTerm) {
  const auto sum = run_halfulp({"witness", "sum:fp16", "sum:fp16,order=pairwise"});
  for (const char* part : {"terms  exactly", "a[3]", "sum = ", "sum by fp16,order=pairwise"})
    EXPECT_NE(sum.out.find(part), std::string::npos) << part << '\n' << sum.out;
}

TEST(WitnessCommand, NoneIsAnAnswer) {
  const auto none = run_halfulp({"witness", "mul:e4m3", "mul:e4m3:nearest-even"});
  EXPECT_EQ(none.status, 0);
  EXPECT_NE(none.out.find("65,536 cases looked at, NaN equal to NaN: all of them"), std::string::npos) << none.out;
  EXPECT_NE(none.out.find("no difference found"), std::string::npos);
}

/// Tininess before and after rounding differ for one product in thousands, just below the smallest normal number.
TEST(WitnessCommand, ProductsAtTheEndOfTheRange) {
  const auto answer = json::parse(
      run_halfulp({"witness", "mul:fp16:flush-outputs", "mul:fp16:flush-outputs:tininess-before", "--json"}).out);
  ASSERT_FALSE(answer["witness"].is_null());
  check_vectors(answer);
  const auto dots = run_halfulp({"witness", "dot:bf16,flush=outputs,tininess=before", "dot:bf16,flush=outputs",
                                 "--quiet", "--longest", "1", "--cases", "100000"});
  EXPECT_NE(dots.out.find("0x0080"), std::string::npos) << dots.out;
  const auto none = run_halfulp(
      {"witness", "dot:bf16", "dot:bf16,order=pairwise", "--longest", "1", "--cases", "1000"});
  EXPECT_NE(none.out.find("187 cases looked at"), std::string::npos) << none.out;
  EXPECT_NE(none.out.find("\nno difference found; there may be one elsewhere\n"), std::string::npos) << none.out;
}

TEST(WitnessCommand, RefusesInOneLine) {
  const std::vector<std::vector<std::string>> bad{{"witness", "add:fp16"},
                                                  {"witness", "add:fp16", "sqrt:fp16"},
                                                  {"witness", "addd:fp16", "add:fp16"},
                                                  {"witness", "add:fp16", "add:fp16", "--cases", "0"},
                                                  {"witness", "hopper.mma", "hopper.mma.fp16.fp32"}};
  expect_refused({"witness", "add:fp16:toward-zero:rne", "add:fp16"}, "'rne': a rounding mode is there twice");
  expect_refused({"witness", "add:fp16:saturate:saturate", "add:fp16"}, "saturate is there twice");
  for (const auto& arguments : bad) expect_refused(arguments);
}

}  // namespace witness_command_test
