// `halfulp sample` as a user runs it.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/npy.hpp>

#include <gtest/gtest.h>

#include <filesystem>

namespace sample_command_test {

using namespace halfulp;
using halfulp::tests::expect_refused, halfulp::tests::run_halfulp;

class Sample : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<double> load(const std::string& name, const std::vector<std::uint64_t>& shape) const {
    NpyReader npy(path(name));
    EXPECT_EQ(npy.header().shape, shape);
    EXPECT_EQ(npy.header().format, fp32);
    std::vector<std::uint64_t> codes(npy.header().count);
    EXPECT_EQ(npy.read(codes), codes.size());
    std::vector<double> values;
    for (const auto c : codes) values.push_back(static_cast<double>(fp32.value(c)));
    return values;
  }

  halfulp::tests::TemporaryFolder folder_;
};

TEST_F(Sample, WritesWhatTheDistributionGivesPlaceByPlace) {
  ASSERT_EQ(run_halfulp({"sample", "--out", path("usual.npy")}).out,
            path("usual.npy") + ": 256 x 64 elements, fp32, log-normal: median 2^-17.5, sigma 4 binades, seed 1\n");
  const Distribution usual{Shape::log_normal, -17.5, 4};
  const std::vector<double> values = load("usual.npy", {256, 64});
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<double>(static_cast<float>(usual.sample(1, i)))) << i;

  ASSERT_EQ(run_halfulp({"sample", "--out", path("wide.npy"), "--shape", "3,5,7", "--distribution", "log-uniform",
                         "--median", "-10", "--sigma", "2", "--seed", "9"})
                .status,
            0);
  const Distribution wide{.shape = Shape::log_uniform, .log2_low = -14, .log2_high = -6};
  const std::vector<double> other = load("wide.npy", {3, 5, 7});
  for (std::size_t i = 0; i < other.size(); ++i) {
    EXPECT_EQ(other[i], static_cast<double>(static_cast<float>(wide.sample(9, i)))) << i;
    EXPECT_TRUE(std::abs(other[i]) >= 0x1p-14 && std::abs(other[i]) <= 0x1p-6) << other[i];
  }
}

/// Gradients so small that the sweep of loss scales ends before the best one.
TEST_F(Sample, AScaleAtTheEndOfASweepIsCalledSo) {
  ASSERT_EQ(run_halfulp({"sample", "--out", path("tiny.npy"), "--median", "-55"}).status, 0);
  const auto underflow = [&](const std::string& to) {
    const auto run = run_halfulp({"run", "underflow", "--set", "input=" + path("tiny.npy"), "--set", "formats=fp16",
                                  "--set", "scale_to=" + to, "--backend", "emulated", "--out", path("r.json")});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out;
  };
  EXPECT_NE(underflow("32").find("a loss scale of 2^32, the largest"), std::string::npos);
  EXPECT_EQ(underflow("60").find(", the largest"), std::string::npos);
}

TEST_F(Sample, RefusesInOneLine) {
  const std::string out = path("x.npy");
  expect_refused({"sample"}, "--out");
  expect_refused({"sample", "--out", "-"}, "standard output is for the summary");
  expect_refused({"sample", "--out", out, "--distribution", "normal", "--sigma", "2"}, "--sigma belongs to log-normal");
  expect_refused({"sample", "\u2014out", out}, "begins with a typographic dash; accepted: --out");
  expect_refused({"sample", "\u2212\u2212out", out}, "begins with a typographic dash; accepted: --out");
  const std::string accepted =
      "; accepted: at most 32 integers of at least 1, separated by commas, such as 256,64, at most 268435456 elements "
      "in all\n";
  for (const auto& [shape, what] : {std::pair{"3,0", "size 2 is 0"},
                                    {"70000,70000", "too many elements"},
                                    {"99999999999999999999", "too many elements"},
                                    {"3,x", "size 2, 'x', is no such integer"},
                                    {"3x4", "size 1, '3x4', is no such integer"},
                                    {"2.5", "size 1, '2.5', is no such integer"},
                                    {"-1", "size 1, '-1', is no such integer"},
                                    {"2,,3", "size 2 is empty"},
                                    {"2,", "size 2 is empty"},
                                    {"", "size 1 is empty"}})
    expect_refused({"sample", "--out", out, "--shape", shape},
                   "--shape is '" + std::string(shape) + "': " + what + accepted);
  std::string many = "1";
  for (int i = 0; i < 32; ++i) many += ",1";
  expect_refused({"sample", "--out", out, "--shape", many}, "...': too many sizes" + accepted);
  expect_refused({"sample", "--out", out, "--shape", "3", "--shape", "4"}, "--shape is there 2 times; accepted: once");
  expect_refused({"sample", "--out", out, "--distribution", "norml"}, "normal");
  expect_refused({"sample", "--out", out, "--median", "1000"}, "--median");
  expect_refused({"sample", "--out", out, "--sigma", "nan"}, "--sigma is 'nan'; accepted: a number from 0.01 to 16");
  expect_refused({"sample", "--out", out, "--seed", "-1"}, "--seed is '-1'; accepted: an integer from 0");
  expect_refused({"sample", "--out", path("no/such/x.npy")}, "no/such");
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace sample_command_test
