// The experiment "scaling": what its tables say of data whose quantization is known by hand, its folders, and what it
// refuses.
#include "experiment_run.hpp"

#include <halfulp/report/finding.hpp>

#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/experiments/scaling/scaling.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace halfulp::scaling {
namespace scaling_test {

namespace fs = std::filesystem;

std::vector<std::string> small(std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"rows=4", "columns=64", "steps=8", "step_values=64", "outliers=1,1000000",
                                     "elements=e4m3", "tensors=normal"});
  return settings;
}
Json report_of(const std::vector<std::string>& settings) { return tests::report_of("scaling", small(settings)); }
std::string refused(const std::vector<std::string>& settings) { return tests::refusal_of("scaling", small(settings)); }

/// The cell of the first row that begins so.
Json cell(const Json& table, const std::vector<Json>& begins, const std::string& column) {
  std::size_t at = 0;
  while (table["columns"][at]["name"] != column) ++at;
  for (const Json& row : table["rows"])
    if (std::equal(begins.begin(), begins.end(), row.begin())) return row[at];
  ADD_FAILURE() << "no such row: " << Json(begins);
  return {};
}

class Scaling : public ::testing::Test {
 protected:
  Scaling() { fs::create_directories(folder); }
  ~Scaling() override { fs::remove_all(folder); }
  std::string npy(const std::string& name, const std::string& shape, const std::vector<double>& values) const {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118, ' ');
    header.back() = '\n';
    const std::string path = folder / name;
    std::ofstream file(path, std::ios::binary);
    file << "\x93NUMPY" << '\x01' << '\x00' << static_cast<char>(header.size()) << '\x00' << header;
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 8));
    return path;
  }
  const fs::path folder = fs::path(::testing::TempDir()) / ("halfulp-scaling-" + std::to_string(::getpid()));
};

TEST_F(Scaling, a_file_in_every_granularity) {
  // 448 makes the scale of the tensor and of row 0 one; 3.1 is 3 in E4M3's steps of 1/4, and only row 1 has the
  // scale 3.5 / 448 = 2^-7.
  const std::string path = npy("a.npy", "(2, 4)", {448, 3.1, 0x1p-11, 0, 3.5, 3.1, 0x1p-10, -1});
  const Json report = report_of({"input=" + path, "formats=e4m3-tensor,e4m3-row,e4m3/column/fp32,fp32"});
  const Json& table = report["results"]["granularity"];
  const std::string finding = finding_of(find_experiment("scaling"), report["results"]);
  EXPECT_TRUE(finding.starts_with("The input has an error of ")) << finding;
  const auto of = [&](const char* format, const char* column) { return cell(table, {"input", format}, column); };
  const double squares = 448. * 448 + 2 * 3.1 * 3.1 + 3.5 * 3.5 + 1 + 0x1p-22 + 0x1p-20;
  EXPECT_NEAR(of("e4m3-tensor", "relative_error").get<double>(),
              std::sqrt((2 * 0.1 * 0.1 + 0x1p-22 + 0x1p-20) / squares), 1e-9);
  EXPECT_EQ(of("e4m3-tensor", "zeros"), 0.25) << "2^-11 and 2^-10 vanish, the tie goes to 0";
  EXPECT_EQ(of("e4m3-row", "zeros"), 0.125) << "2^-10 is 2^-3 of row 1's scale";
  EXPECT_EQ(of("e4m3-row", "bits"), 8 + 2 * 32 / 8.0);
  EXPECT_EQ(of("e4m3/column/fp32", "zeros"), 0) << "a column with the largest value alone in it, or as many again";
  EXPECT_EQ(of("e4m3-tensor", "scale_for"), "tensor");
  EXPECT_EQ(of("fp32", "scale_for"), "none");
  EXPECT_EQ(of("e4m3-tensor", "saturated"), 0);
  EXPECT_NEAR(of("e4m3-tensor", "sqnr").get<double>(),
              -20 * std::log10(of("e4m3-tensor", "relative_error").get<double>()), 1e-9);
}

TEST_F(Scaling, an_outlier_channel_hides_what_the_others_lose) {
  const Json table = report_of({"tensors=outlier-channel,normal", "outlier=1e6",
                                "formats=int8-tensor,e4m3/column/fp32,fp32"})["results"]["granularity"];
  const auto of = [&](const char* format, const char* column) {
    return cell(table, {"outlier-channel", format}, column);
  };
  EXPECT_EQ(of("int8-tensor", "others_error"), 1.0) << "all of them become zero";
  EXPECT_LT(of("int8-tensor", "relative_error"), 0.01);
  EXPECT_GT(of("e4m3/column/fp32", "others_error"), 0.01);
  EXPECT_LT(of("e4m3/column/fp32", "others_error"), 0.04) << "no other channel shares its scale";
  EXPECT_EQ(of("fp32", "others_error"), 0.0);
  EXPECT_TRUE(cell(table, {"normal", "int8-tensor"}, "others_error").is_null());
  EXPECT_TRUE(cell(report_of({"tensors=outlier-channel", "columns=1", "formats=fp16"})["results"]["granularity"],
                   {"outlier-channel"}, "others_error")
                  .is_null());
}

TEST_F(Scaling, rules_by_hand) {
  std::vector<double> block(32, 1);
  block[0] = 465, block[1] = 957;  // floor: 2^(9 - 8) and 896 at most; ceil and rceil: 4 at least
  const Json table = report_of({"input=" + npy("b.npy", "(1, 32)", block)})["results"]["rules"];
  const auto of = [&](const char* rule, const char* column) {
    return cell(table, {"input", "e4m3", "e8m0", rule}, column);
  };
  EXPECT_EQ(of("floor", "saturated"), 1);
  EXPECT_EQ(of("floor", "largest_error"), 957 - 896);
  EXPECT_EQ(of("ceil", "saturated"), 0);
  EXPECT_EQ(of("rceil", "saturated"), 0);
  EXPECT_EQ(of("rceil", "largest_error"), 480 - 465) << "116.25 times 4: 112 or 120";
}

TEST_F(Scaling, folders_by_kind_and_tensor) {
  SavedGradients saved(folder / "g", {{"network", "mlp"}});
  const std::vector<std::uint64_t> shape{1, 2};
  const std::vector<float> first{448, 0x1p-12f}, second{1, 1};
  saved.add(1, "fc1.weight.gradient", GradientKind::of_weight, 2, shape, first);
  saved.add(1, "fc1.gradient", GradientKind::of_activation, 1, shape, second);
  saved.add(2, "fc1.weight.gradient", GradientKind::of_weight, 1, shape, second);
  saved.finish();
  const Json report = report_of({"input=" + (folder / "g").string(), "formats=e4m3-tensor,fp16"});
  EXPECT_EQ(report["status"], "pass");
  const Json& table = report["results"]["tensors"];
  EXPECT_EQ(cell(table, {"all", "gradient-of-weight", nullptr, "e4m3-tensor"}, "values"), 4);
  EXPECT_EQ(cell(table, {"all", "gradient-of-weight", nullptr, "e4m3-tensor"}, "zeros"), 0.25);
  EXPECT_EQ(cell(table, {"all", "gradient-of-activation", nullptr, "e4m3-tensor"}, "zeros"), 0);
  EXPECT_EQ(cell(table, {"fc1.weight.gradient", "gradient-of-weight", 1, "e4m3-tensor"}, "zeros"), 0.5);
  EXPECT_EQ(cell(table, {"fc1.weight.gradient", "gradient-of-weight", 1, "fp16"}, "relative_error"), 0.0);
  const double all = cell(table, {"all", "gradient-of-weight", nullptr, "e4m3-tensor"}, "relative_error");
  EXPECT_NEAR(all, 0x1p-13 / std::sqrt(224. * 224 + 0x1p-26 + 2), 1e-15);
}

TEST_F(Scaling, odd_settings_neither_fail_nor_crash) {
  for (const std::vector<std::string>& settings :
       std::vector<std::vector<std::string>>{{"formats=fp32"},
                                             {"formats=e2m1"},
                                             {"formats=int4-affine"},
                                             {"elements=e4m0finite", "rounding=toward-positive"},
                                             {"elements=e5m2fnuz,p3109k8p3,e3m4", "rounding=to-odd"},
                                             {"rounding=stochastic", "margins=-2"},
                                             {"rows=1", "columns=1"},
                                             {"rows=3", "columns=33", "formats=fp8-128x128,mxfp4/even"},
                                             {"jump=0", "drift=0"},
                                             {"delayed_format=e5m2-tensor"},
                                             {"delayed_format=int8-tensor"},
                                             {"outliers=1e30,1e-30", "formats=fp16,e4m3-tensor"},
                                             {"elements=e4m3b100,e2m5finite"},
                                             {"tensors=uniform,normal,heavy-tailed,outlier-channel", "outlier=1e30"}}) {
    const Json report = report_of(settings);
    for (const Json& claim : report["claims"]) EXPECT_NE(claim["verdict"], "fail") << settings[0] << "\n" << claim;
  }
  const std::string path = npy("odd.npy", "(2, 3)", {std::nan(""), INFINITY, 1, 0, -0.0, 1e300});
  const Json report = report_of({"input=" + path, "formats=e4m3-tensor,mxfp4,fp16"});
  EXPECT_EQ(report["status"], "pass");
  EXPECT_TRUE(cell(report["results"]["granularity"], {"input", "e4m3-tensor"}, "relative_error").is_null())
      << "a NaN makes the scale NaN";
}

TEST_F(Scaling, refuses_in_one_line) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"formats=mxfp9"}, "did you mean"},
      {{"formats=e8m0"}, "no zero or no sign"},
      {{"formats=e4m3-tensor,e4m3-tensor"}, "twice"},
      {{"formats="}, "empty"},
      {{"elements=fp16"}, "at most 8"},
      {{"elements=e4m3b140"}, "elements: e4m3b140"},
      {{"elements=e8m0"}, "no zero or no sign"},
      {{"delayed_format=mxfp4"}, "delayed_format: "},
      {{"delayed_format=e4m3-tensr"}, "delayed_format: "},
      {{"drift=8", "steps=100"}, "binades"},
      {{"input=/nowhere.npy"}, "/nowhere.npy"},
      {{"input=" + npy("e.npy", "(0, 3)", {})}, "at least one"},
      {{"input=" + folder.string(), "formats=e4m3-tensor"}, "at least one"},
      {{"formats=e4m3/1x48/e8m0/whole"}, "normal in e4m3/1x48/e8m0/whole"}};
  for (const auto& [settings, words] : cases) {
    const std::string said = refused(settings);
    EXPECT_NE(said.find(words), std::string::npos) << settings[0] << ": " << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

TEST(ColumnLoss, by_hand) {
  const std::vector<double> before{1, 10, 2, 20, 3, 30}, after{1, 11, 0, 20, INFINITY, 28};
  const ColumnLoss loss = column_loss(before, after, 2, 1);
  EXPECT_DOUBLE_EQ(loss.others, std::sqrt(4.0 / 5));
  EXPECT_DOUBLE_EQ(loss.column, std::sqrt(5.0 / 1400));
  EXPECT_DOUBLE_EQ(loss.others_zeroed, 1.0 / 3);
  EXPECT_TRUE(std::isnan(column_loss(std::vector<double>{1, 2}, std::vector<double>{1, INFINITY}, 2, 1).column));
}

TEST(SumOfSquares, adds_up_at_any_scale) {
  for (const double scale : {0x1p-1000, 1.0, 0x1p900}) {
    SumOfSquares a, b, both, one, none;
    for (const double v : {3.0, 4.0}) a.add(v * scale), both.add(v * scale);
    for (const double v : {12.0, 84.0}) b.add(v * scale), both.add(v * scale);
    a.add(b);
    a.add(none);
    one.add(scale);
    EXPECT_DOUBLE_EQ(a.root_of_ratio(one), 85) << scale;
    EXPECT_DOUBLE_EQ(both.root_of_ratio(a), 1) << scale;
    none.add(a);
    EXPECT_DOUBLE_EQ(none.root_of_ratio(one), 85) << scale;
  }
}

}  // namespace scaling_test
}  // namespace halfulp::scaling
