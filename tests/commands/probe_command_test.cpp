// `halfulp probe` as a user runs it.
#include "command.hpp"

#include <halfulp/hardware/backend.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace halfulp {
namespace {

using namespace testing;

TEST(ProbeCommand, SaysWhatItFound) {
  const Outcome outcome = run_halfulp({"probe", "--backend", "emulated:hopper.mma.fp16.fp16"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const auto* line : {"0 answers that no model explains", "length = 16", "alignment_bits = 25",
                           "least_exponent = -22", "answers as hopper.mma.fp16.fp16"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << "\n" << outcome.out;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ProbeCommand, JsonSaysTheSame) {
  const auto json = nlohmann::json::parse(
      run_halfulp({"probe", "--backend", "emulated:volta.mma.fp16.fp32", "--json"}).out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["unexplained"], 0);
  EXPECT_EQ(json[0]["units"][0], "volta.mma.fp16.fp32");
  const auto& parameters = json[0]["models"][0]["parameters"];
  ASSERT_EQ(parameters.size(), 13u);
  for (const auto& row : parameters) {
    if (row["name"] == "alignment_bits") {
      EXPECT_EQ(row["value"], "23");
      EXPECT_EQ(row["values"], nlohmann::json::parse(R"([["23", "23"]])"));
      EXPECT_EQ(row["witnesses"].size(), 2u);
    }
    if (row["name"] == "grouping") { EXPECT_EQ(row["because"], "one sum takes all products of the instruction"); }
  }
}

TEST(ProbeCommand, BadInputIsOneLine) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"probe"},
                                                    {"probe", "--backend", "emulated:hopper.mma.fp16.fp23"},
                                                    {"probe", "--backend", "gpu"},
                                                    {"probe", "--backend", "recorded:nothing"}}) {
    const Outcome outcome = run_halfulp(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  }
  EXPECT_NE(
      run_halfulp({"probe", "--backend", "emulated:hopper.mma.fp16.fp23"}).err.find("did you mean hopper.mma.fp16.fp"),
      std::string::npos);
}

TEST(ProbeCommand, AMissingDeviceIsNoBadInput) {
  if (find_backend("cuda").available().yes) GTEST_SKIP() << "there is one";
  const Outcome outcome = run_halfulp({"probe", "--backend", "cuda"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
}

}  // namespace
}  // namespace halfulp
