// `halfulp profiles` and `halfulp diff-profiles` as a user runs them.
#include "command.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace profiles_command_test {

using halfulp::tests::expect_refused;
using halfulp::tests::run_halfulp;
using nlohmann::json;

TEST(ProfilesCommand, ListsAndShows) {
  const auto list = run_halfulp({"profiles"});
  EXPECT_EQ(list.status, 0);
  for (const char* name :
       {"ocp-saturate", "ml_dtypes", "pytorch-legacy", "onnx-nosaturate", "cuda-satfinite", "microxcaling"})
    EXPECT_NE(list.out.find(name), std::string::npos) << name;
  const auto one = run_halfulp({"profiles", "pytorch"});
  EXPECT_EQ(one.status, 0);
  EXPECT_NE(one.out.find("overflow  0x7e 448, 0xfe -448"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("178817"), std::string::npos);
  const json all = json::parse(run_halfulp({"profiles", "--json"}).out);
  EXPECT_GE(all.size(), 13u);
  const json rule = json::parse(run_halfulp({"profiles", "ml_dtypes", "--json"}).out)["rules"][0];
  EXPECT_EQ(rule["to"], "e4m3");
  EXPECT_EQ(rule["overflow"]["negative"]["code"], "0xff");
  EXPECT_EQ(rule["through_fp32"], json::array({"fp64"}));
}

TEST(ProfilesCommand, AsksEveryProfile) {
  const auto asked = run_halfulp({"profiles", "--of", "449,465,0xffc00000"});
  EXPECT_EQ(asked.status, 0);
  EXPECT_NE(asked.out.find("ml_dtypes        0x7e 448        0x7f NaN        0xff -NaN"), std::string::npos)
      << asked.out;
  EXPECT_NE(asked.out.find("cuda-satfinite   0x7e 448        0x7e 448        0x7f NaN"), std::string::npos)
      << asked.out;
  const json scale = json::parse(run_halfulp({"profiles", "--of=-2", "--from", "bf16", "--to", "e8m0", "--json"}).out);
  EXPECT_EQ(scale["operands"][0]["code"], "0xc000");
  for (const json& row : scale["profiles"]) {
    EXPECT_EQ(row["results"][0]["code"], row["profile"] == "ml_dtypes" ? "0xff" : "0x80") << row;
  }
}

TEST(ProfilesCommand, FindsDifferences) {
  const auto found = run_halfulp({"diff-profiles", "ml_dtypes", "pytorch", "--from", "fp16", "--to", "e4m3"});
  EXPECT_EQ(found.status, 0);  // a difference is the answer
  EXPECT_NE(found.out.find("all 65,536 inputs"), std::string::npos) << found.out;
  EXPECT_NE(found.out.find("smallest   0x5f41 464.25: ml_dtypes gives 0x7f NaN, pytorch gives 0x7e 448"),
            std::string::npos)
      << found.out;
  EXPECT_EQ(found.err, "");
  const json diff = json::parse(
      run_halfulp({"diff-profiles", "ml_dtypes", "pytorch", "--from", "fp16", "--to", "e4m3", "--json"}).out);
  EXPECT_EQ(diff["compared"], 65536);
  EXPECT_EQ(diff["witness"]["code"], "0x5f41");
  EXPECT_EQ(diff["ranges"][0]["a_first"]["code"], "0x7f");
  EXPECT_EQ(diff["ranges"].size(), diff["ranges_found"]);
  std::uint64_t sum = 0;
  for (const json& range : diff["ranges"]) sum += range["count"].get<std::uint64_t>();
  EXPECT_EQ(diff["differing"], sum);
}

TEST(ProfilesCommand, SaysWhereThereIsNone) {
  const auto none = run_halfulp({"diff-profiles", "ml_dtypes", "onnx-nosaturate", "--from", "bf16", "--to", "e5m2"});
  EXPECT_EQ(none.status, 0);
  EXPECT_NE(none.out.find("no difference"), std::string::npos);
  const auto nan = run_halfulp(
      {"diff-profiles", "pytorch", "ml_dtypes", "--from", "fp16", "--to", "e5m2", "--any-nan"});
  EXPECT_NE(nan.out.find("no difference"), std::string::npos) << nan.out;
  EXPECT_NE(run_halfulp({"diff-profiles", "pytorch", "ml_dtypes", "--from", "fp16", "--to", "e5m2"})
                .out.find("differ on 2,046 inputs"),
            std::string::npos);
  const auto sample = run_halfulp({"diff-profiles", "ml_dtypes", "tensorflow", "--from", "fp64", "--to", "e4m3"});
  EXPECT_NE(sample.out.find("a sample of"), std::string::npos) << sample.out;
}

TEST(ProfilesCommand, LongListsAreCut) {
  const auto cut = run_halfulp({"diff-profiles", "pytorch", "onnx", "--from", "bf16", "--to", "e8m0"});
  EXPECT_NE(cut.out.find("more ranges (--all shows them)"), std::string::npos) << cut.out;
  EXPECT_EQ(run_halfulp({"diff-profiles", "pytorch", "onnx", "--from", "bf16", "--to", "e8m0", "--all"})
                .out.find("more ranges"),
            std::string::npos);
}

TEST(ProfilesCommand, RefusesInOneLine) {
  const std::vector<std::vector<std::string>> bad{
      {"profiles", "pytorsch"},
      {"diff-profiles", "onnx", "onxx", "--to", "e4m3"},
      {"diff-profiles", "onnx", "pytorch", "--to", "e4m9x"},
      {"diff-profiles", "onnx", "tensorflow", "--to", "e2m1"},
      {"diff-profiles", "onnx", "pytorch", "--from", "e5m2", "--to", "e4m3"},
      {"diff-profiles", "onnx", "pytorch"},
      {"profiles", "--of", "x"},
      {"profiles", "--of", "1,,2"},
      {"profiles", "--of", " "},
      {"profiles", "--of", "1", "--to", "tf32"},
      {"profiles", "onnx", "--of", "1"},
      {"diff-profiles", "onnx", "pytorch", "--to", "e4m3", "--threads", "0"}};
  for (const auto& arguments : bad) expect_refused(arguments);
}

}  // namespace profiles_command_test
