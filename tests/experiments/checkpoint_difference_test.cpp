// Two checkpoints side by side: what differs is counted, and a cast that made one of the other is found.
#include "temporary_folder.hpp"

#include "check.hpp"
#include "experiment_run.hpp"

#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/experiments/checkpoint/write.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cmath>
#include <fstream>

namespace checkpoint_difference_test {

using namespace halfulp;
using namespace halfulp::checkpoint;

class TwoCheckpoints : public ::testing::Test {
 protected:
  tests::TemporaryFolder folder;
  const std::string a = folder / "a.safetensors", b = folder / "b.safetensors";

  /// Values in a dtype, under a name.
  static void write(const std::string& path, const char* type, const std::vector<std::uint64_t>& shape,
                    const std::vector<double>& values, const std::string& name = "m.weight") {
    StoredTensor t{name, find_element_type(type), shape, values.size()};
    t.bytes = *stored_bytes(*t.type, t.count);
    std::string data;
    for (const double x : values) {
      const std::uint64_t code = convert(fp64, *t.type->format, {}, std::bit_cast<std::uint64_t>(x)).code;
      for (int i = 0; i < t.type->bits / 8; ++i) data += static_cast<char>(code >> (8 * i) & 255);
    }
    std::vector<StoredTensor> all{t};
    const std::string header = safetensors_header(all, {});
    std::ofstream(path, std::ios::binary) << header << data;
  }
  static std::vector<double> values(std::uint64_t count) {
    check::Random random{3};
    std::vector<double> all(count);
    for (double& x : all) {
      x = static_cast<double>(static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1));
      const std::uint64_t kind = random() % 30;  // some lie halfway between two of bf16, fp16 or e4m3
      for (const auto& [which, half] : {std::pair{0u, 0x1p-8}, {1u, 0x1p-11}, {2u, 0x1p-4}})
        if (kind == which) x = (x < 0 ? -1 : 1) * (1 + static_cast<double>(random() % 8 * 2 + 1) * half);
    }
    return all;
  }
  Json compared(const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> all{"checkpoint=" + a, "against=" + b};
    all.insert(all.end(), settings.begin(), settings.end());
    return tests::report_of(checkpoint_difference_experiment(), all)["results"];
  }
  /// The format in which its tensor is stored.
  static std::string model_of(const std::string& path) { return ModelTensors(path).tensors()[0].stored_as(); }
  /// The one row of the table `differences`.
  Json row(const std::vector<std::string>& settings = {}) const { return compared(settings)["differences"]["rows"][0]; }
};

TEST_F(TwoCheckpoints, CountsAndUlps) {
  write(b, "F16", {2, 4}, {1, -2, 0, 4, 5, 6, 7, 65504});
  write(a, "F16", {2, 4}, {1, -2, -0.0, 4 + 3 * 0x1p-8, 5, 6, 7 - 0x1p-8, 65504 - 32});
  const Json r = row();
  EXPECT_EQ(r[3], 8);
  EXPECT_EQ(r[4], 3) << "zeros of both signs are the same";
  EXPECT_EQ(r[5], 3.0);
  EXPECT_EQ(r[6], "fp16");
  EXPECT_EQ(r[7], 32.0);
  const double squares = 1 + 4 + 16 + 25 + 36 + 49 + 65504.0 * 65504.0;
  EXPECT_DOUBLE_EQ(r[8].get<double>(), std::sqrt((9 * 0x1p-16 + 0x1p-16 + 32.0 * 32) / squares));
  EXPECT_TRUE(r[10].is_null());
  EXPECT_EQ(compared()["totals"]["rows"][0], Json::parse("[1, 1, 1, 0, 0]"));
  write(a, "F32", {1}, {1 + 0x1p-13}), write(b, "F16", {1}, {1});
  EXPECT_EQ(row()[5], 0.125) << "of the coarser format";
  EXPECT_EQ(row()[6], "fp16");
}

TEST_F(TwoCheckpoints, TheSame) {
  write(a, "BF16", {3}, {1, 2, 3}), write(b, "BF16", {3}, {1, 2, 3});
  EXPECT_EQ(row()[10], "the same bytes");
  write(b, "F32", {3}, {1, 2, 3});
  EXPECT_EQ(row()[10], "the same values, stored otherwise");
  EXPECT_EQ(row()[4], 0);
  EXPECT_TRUE(row()[6].is_null());
}

TEST_F(TwoCheckpoints, CastsByEveryModeAreFound) {
  write(b, "F32", {300, 300}, values(90000));
  const ModelTensors model(b);
  for (const char* name : {"bf16", "fp16", "e4m3"})
    for (const auto& mode : rounding_modes) {
      const auto format = chosen_formats(name, "formats");
      std::vector<Rewritten> one;
      one.push_back({&model.tensors()[0], &format[0]});
      Rounding rounding;
      rounding.mode = mode.value;
      const Destination to{a, {}, find_element_type("BF16"), rounding, 1};
      ASSERT_TRUE(write_checkpoint(model, one, to, [](double) {}).placed);
      const Json because = row()[10];
      if (mode.value == RoundingMode::stochastic) EXPECT_TRUE(because.is_null()) << because;
      else if (std::string(name) == "bf16") EXPECT_EQ(because, std::string(name) + ", " + std::string(mode.name));
      else EXPECT_EQ(because, std::string(name) + ", " + std::string(mode.name) + ", stored as BF16");
    }
}

TEST_F(TwoCheckpoints, CodeWordsInLayoutsAreExplained) {
  write(b, "BF16", {64, 128}, values(8192));
  const ModelTensors model(b);
  const std::pair<const char*, const char*> cases[] = {
      {"nvfp4", "compressed-tensors"}, {"nvfp4", "modelopt"}, {"mxfp8e4m3", "torchao"},
      {"e4m3-row", "deepseek"},        {"int8", "modelopt"},  {"mxfp4", "mlx"}};
  for (const auto& [format, writer] : cases) {
    const auto chosen = chosen_formats(format, "formats");
    std::vector<Rewritten> one;
    one.push_back({&model.tensors()[0], &chosen[0]});
    const Destination to{a, writer, nullptr, {}, 0};
    ASSERT_TRUE(write_checkpoint(model, one, to, [](double) {}).placed);
    const std::string because = row()[10].is_null() ? "nothing" : row()[10].get<std::string>();
    // Of integers code words do not say whether -128 was meant to be among them.
    EXPECT_EQ(because, std::string(format) == "int8" ? "int8, stored as int8full/row/fp32" : model_of(a)) << writer;
  }
  std::swap(const_cast<std::string&>(a), const_cast<std::string&>(b));
  EXPECT_EQ(row()[10], "the other one is this in mxfp4");
}

TEST_F(TwoCheckpoints, OneValueMakesACastNoExplanation) {
  std::vector<double> all = values(90000);
  write(b, "F32", {300, 300}, all);
  for (double& x : all) x = bf16.value(convert(fp64, bf16, {}, std::bit_cast<std::uint64_t>(x)).code);
  write(a, "F32", {300, 300}, all);
  EXPECT_EQ(row()[10], "bf16, nearest-even, stored as F32");
  all.back() *= 1.0078125;
  write(a, "F32", {300, 300}, all);
  EXPECT_TRUE(row()[10].is_null());
}

/// Doubles that are one float are not the same.
TEST_F(TwoCheckpoints, Doubles) {
  write(b, "F64", {3}, {1.0 / 3, 1e300, 2}), write(a, "F64", {3}, {1.0 / 3 + 0x1p-53, 2e300, 2});
  Json r = row();
  EXPECT_EQ(r[4], 2);
  EXPECT_EQ(r[6], "fp64");
  EXPECT_TRUE(r[10].is_null());
  write(b, "F64", {1}, {1.0 / 3}), write(a, "F64", {1}, {1.0 / 3 + 0x1p-54});
  r = row();
  EXPECT_EQ(r[5], 1.0);
  EXPECT_EQ(r[7], 0x1p-54);
  write(b, "F32", {1}, {1}), write(a, "F64", {1}, {1 + 0x1p-30});
  EXPECT_EQ(row()[4], 1);
  EXPECT_EQ(row()[10], "the other one is this in fp32, nearest-even") << "or of the casts that come first";
}

TEST_F(TwoCheckpoints, IntegersOfOneAlone) {
  const auto with_steps = [](const std::string& path, bool steps) {
    std::vector<StoredTensor> all{{"m", find_element_type("F32"), {1}, 1, 0, 4, 0}};
    if (steps) all.push_back({"steps", find_element_type("I64"), {1}, 1, 0, 8, 4});
    const std::string header = safetensors_header(all, {});
    std::ofstream(path, std::ios::binary) << header << std::string(steps ? 12 : 4, '\0');
  };
  with_steps(a, false), with_steps(b, true);
  EXPECT_EQ(compared()["apart"]["rows"], Json::parse(R"([["steps", null, "I64 [1]"]])"));
  with_steps(a, true), with_steps(b, false);
  EXPECT_EQ(compared()["apart"]["rows"], Json::parse(R"([["steps", "I64 [1]", null]])"));
}

TEST_F(TwoCheckpoints, WhatIsApart) {
  write(a, "F32", {4}, {1, 2, 3, 4}), write(b, "F32", {2, 2}, {1, 2, 3, 4});
  Json apart = compared()["apart"]["rows"];
  ASSERT_EQ(apart.size(), 1u);
  EXPECT_EQ(apart[0], Json::parse(R"(["m.weight", "F32 [4]", "F32 [2, 2]"])"));
  write(b, "F32", {4}, {1, 2, 3, 4}, "n.weight");
  apart = compared()["apart"]["rows"];
  ASSERT_EQ(apart.size(), 2u);
  EXPECT_EQ(apart[0], Json::parse(R"(["m.weight", "F32 [4]", null])"));
  EXPECT_EQ(apart[1], Json::parse(R"(["n.weight", null, "F32 [4]"])"));
}

}  // namespace checkpoint_difference_test
