// `underflow` on a folder of gradients: counts that are known because the values were chosen, and bad folders through
// the command line.
#include "command.hpp"
#include "underflow_run.hpp"

#include <halfulp/data/npy.hpp>
#include <halfulp/data/saved_gradients.hpp>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace halfulp {
namespace underflow_folder_test {

namespace fs = std::filesystem;
using namespace halfulp::tests;
using Shape = std::vector<std::uint64_t>;

constexpr float at_24 = 0x1p-24f, at_14 = 0x1p-14f;
const float below_24 = std::nextafter(at_24, 0.0f), below_14 = std::nextafter(at_14, 0.0f);

class UnderflowFolder : public ::testing::Test {
 protected:
  UnderflowFolder() { fs::create_directories(root); }
  ~UnderflowFolder() override { fs::remove_all(root); }

  /// Values of gradients under a loss scale, as backward would have given them.
  static std::vector<float> scaled(std::vector<float> values, float scale) {
    for (float& value : values) value *= scale;
    return values;
  }
  /// Three steps' worth of edges, under scales of 1024, 1 and 3.
  std::string save() const {
    SavedGradients saved(root / "run", {{"network", "mlp"}, {"policy", "fp16"}, {"seed", 7}, {"lr", 0.1}});
    saved.add(10, "fc1.weight.gradient", GradientKind::of_weight, 1024, Shape{2, 5},
              scaled({0, -0.0f, at_24, -below_24, at_14, -below_14, 1, 0x1p-149f * 0x1p20f, NAN, HUGE_VALF}, 1024));
    saved.add(10, "relu1.activation-gradient", GradientKind::of_activation, 1024, Shape{4},
              scaled({0, 0, below_24, 2}, 1024));
    saved.add(20, "fc1.weight.gradient", GradientKind::of_weight, 1, Shape{2, 5},
              std::vector<float>{0x1p-149f, at_24, 1, 1, 1, 1, 1, 1, 1, 1});
    saved.add(20, "relu1.activation-gradient", GradientKind::of_activation, 1, Shape{4},
              std::vector<float>{0, 0, 0, 1});
    saved.add(30, "fc1.weight.gradient", GradientKind::of_weight, 3, Shape{1, 2},
              std::vector<float>{3 * at_24, 3 * at_14});
    saved.finish();
    return "input=" + (root / "run").string();
  }
  const fs::path root = fs::path(::testing::TempDir()) / ("halfulp-underflow-folder-" + std::to_string(::getpid()));
};

const Json* find_claim(const Json& report, const std::string& id) {
  for (const Json& claim : report["claims"])
    if (claim["id"] == id) return &claim;
  return nullptr;
}

/// A row of `layers` from values on: values, not_finite, shares of values, exponents.
void expect_layer(const Json& report, const std::map<std::string, Json>& where, double values, int not_finite,
                  std::array<int, 4> counts, std::array<int, 2> exponents) {
  const auto at = [&](const char* column) { return cell(report, "layers", where, column); };
  const std::string which = Json(where).dump();
  EXPECT_EQ(at("values"), values) << which;
  EXPECT_EQ(at("not_finite"), not_finite) << which;
  const std::array<const char*, 4> names{"zero", "below_2_24", "from_2_24", "from_2_14"};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(at(names[i]).get<double>(), counts[i] / values) << which << names[i];
  EXPECT_EQ(at("smallest_exponent"), exponents[0]) << which;
  EXPECT_EQ(at("largest_exponent"), exponents[1]) << which;
}

TEST_F(UnderflowFolder, layers_hold_what_was_put_there) {
  const Json report = run_underflow({save(), "formats=fp16", "scale_to=1"});
  EXPECT_EQ(report["status"], "pass");
  const std::string weight = "gradient-of-weight", activation = "gradient-of-activation", fc1 = "fc1.weight.gradient",
                    relu1 = "relu1.activation-gradient";
  expect_layer(report, {{"tensor", "all"}, {"kind", weight}}, 20, 2, {2, 3, 4, 11}, {-149, 0});
  expect_layer(report, {{"tensor", "all"}, {"kind", activation}}, 8, 0, {5, 1, 0, 2}, {-25, 1});
  expect_layer(report, {{"tensor", fc1}, {"step", nullptr}}, 20, 2, {2, 3, 4, 11}, {-149, 0});
  expect_layer(report, {{"tensor", relu1}, {"step", nullptr}}, 8, 0, {5, 1, 0, 2}, {-25, 1});
  expect_layer(report, {{"tensor", fc1}, {"step", 10}}, 8, 2, {2, 2, 2, 2}, {-129, 0});
  expect_layer(report, {{"tensor", relu1}, {"step", 10}}, 4, 0, {2, 1, 0, 1}, {-25, 1});
  expect_layer(report, {{"tensor", fc1}, {"step", 20}}, 10, 0, {0, 1, 1, 8}, {-149, 0});
  expect_layer(report, {{"tensor", relu1}, {"step", 20}}, 4, 0, {3, 0, 0, 1}, {0, 0});
  expect_layer(report, {{"tensor", fc1}, {"step", 30}}, 2, 0, {0, 0, 1, 1}, {-24, -14});
  EXPECT_EQ(report["results"]["layers"]["rows"].size(), 9u);
  EXPECT_EQ(cell(report, "layers", {{"tensor", fc1}, {"step", 10}}, "scale"), 1024.0);
  EXPECT_EQ(cell(report, "layers", {{"tensor", fc1}, {"step", nullptr}}, "scale"), nullptr);
}

TEST_F(UnderflowFolder, other_tables_have_all_of_a_kind_as_one_source) {
  const Json report = run_underflow({save(), "formats=fp16", "scale_to=1", "roundings=nearest-even"});
  EXPECT_EQ(report["results"]["inputs"]["rows"].size(), 2u);
  EXPECT_EQ(report["results"]["fates"]["rows"].size(), 4u);
  for (const auto& [column, expected] : std::map<std::string, Json>{
           {"elements", 22}, {"nan", 1}, {"infinite", 1}, {"zero", 2}, {"smallest", 0x1p-149}, {"largest", 1.0}})
    EXPECT_EQ(cell(report, "inputs", {{"source", "weight-gradients"}}, column), expected) << column;
  const std::string description = cell(report, "inputs", {{"source", "weight-gradients"}}, "description");
  EXPECT_EQ(description.rfind("weight gradients saved at 3 steps, 3 tensors, divided by their loss scales; network "
                              "mlp, policy fp16, seed 7",
                              0),
            0u)
      << description;
  // 2^-129 and 2^-149 vanish in fp16; what lies just below 2^-24 becomes 2^-24.
  const std::map<std::string, Json> weights{{"source", "weight-gradients"}, {"quantity", "gradient"}};
  EXPECT_EQ(cell(report, "fates", weights, "zero").get<double>(), 2 / 18.0);
  EXPECT_EQ(cell(report, "fates", weights, "subnormal").get<double>(),
            4 / 18.0);  // 2^-24 three times and its neighbour; below 2^-14 rounds up to normal
  EXPECT_EQ(cell(report, "histogram", {{"source", "activation-gradients"}, {"binade", -25}}, "values"), 1);
  EXPECT_EQ((*find_claim(report, "weight-gradients-every-fate"))["verdict"], "pass");
}

TEST_F(UnderflowFolder, published_shares_are_compared_and_never_tuned) {
  const Json report = run_underflow({save(), "formats=fp16", "scale_to=1"});
  const Json weights = *find_claim(report, "published-share-below-2-24"),
             activations = *find_claim(report, "published-activation-gradients");
  EXPECT_EQ(weights["verdict"], "differs");
  EXPECT_EQ(weights["measured"].get<double>(), 3 / 18.0);
  EXPECT_EQ(
      weights["reason"],
      "another network (network mlp, policy fp16, seed 7): 3 of 18 finite non-zero weight gradients lie below 2^-24");
  EXPECT_EQ(activations["verdict"], "differs");
  EXPECT_EQ(activations["measured"].get<double>(), 5 / 8.0);
  EXPECT_EQ(activations["reason"],
            "another network (network mlp, policy fp16, seed 7): 5 of 8 finite activation gradients are zero");

  // Five in a hundred of only one kind.
  SavedGradients saved(root / "five", Json::object());
  std::vector<float> values(100, 1.0f);
  for (std::size_t i = 0; i < 5; ++i) values[i] = -below_24;
  saved.add(1, "w", GradientKind::of_weight, 1, Shape{100}, values);
  saved.finish();
  const Json five = run_underflow({"input=" + (root / "five").string(), "formats=fp16", "scale_to=1"});
  EXPECT_EQ((*find_claim(five, "published-share-below-2-24"))["verdict"], "pass");
  EXPECT_EQ((*find_claim(five, "published-activation-gradients"))["reason"],
            "needs that network's gradients; the folder holds no activation gradients");
}

TEST_F(UnderflowFolder, a_users_own_files_are_one_source) {
  fs::create_directories(root / "own");
  write_npy(root / "own" / "b.npy", Shape{2}, std::vector<float>{0, at_24});
  std::ofstream(root / "own" / "a.npy", std::ios::binary)
      << npy_bytes("<f2", Shape{2}, std::string("\x00\x00\x01\x00", 4));
  const Json report = run_underflow({"input=" + (root / "own").string(), "formats=fp16", "scale_to=1"});
  expect_layer(report, {{"tensor", "all"}, {"kind", "unknown"}}, 4, 0, {2, 0, 2, 0}, {-24, -24});
  expect_layer(report, {{"tensor", "a"}}, 2, 0, {1, 0, 1, 0}, {-24, -24});
  EXPECT_EQ(report["results"]["layers"]["rows"].size(), 3u);
  EXPECT_EQ(report["results"]["inputs"]["rows"].size(), 1u);
  for (const char* id : {"published-share-below-2-24", "published-activation-gradients"}) {
    EXPECT_EQ((*find_claim(report, id))["verdict"], "skipped") << id;
    EXPECT_NE((*find_claim(report, id))["reason"].get<std::string>().find("no gradients.json"), std::string::npos)
        << id;
  }
}

/// Many small tensors and large ones, across the pieces that are measured at once.
TEST_F(UnderflowFolder, neither_threads_nor_borders_of_files_show) {
  std::vector<float> all;
  for (int i = 0; i < 60'000; ++i)
    all.push_back(std::ldexp(1 + static_cast<float>(i % 97) / 97, -(i % 40)) * static_cast<float>(i % 3 - 1));
  SavedGradients one(root / "one", Json::object()), many(root / "many", Json::object());
  one.add(1, "w", GradientKind::of_weight, 1, Shape{all.size()}, all);
  std::size_t begin = 0;
  for (std::uint64_t step = 1; begin < all.size(); ++step) {
    const std::size_t n = std::min<std::size_t>(step * step * step, all.size() - begin);
    many.add(
        step, "w", GradientKind::of_weight, std::ldexp(1.0, static_cast<int>(step)), Shape{n},
        scaled({all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(begin + n)},
               std::ldexp(1.0f, static_cast<int>(step))));
    begin += n;
  }
  one.finish();
  many.finish();
  std::array<Json, 3> results;
  for (std::size_t i = 0; i < 3; ++i) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, i == 0 ? 1 : 2);
    results[i] = run_underflow({"input=" + (root / (i < 2 ? "many" : "one")).string(), "formats=fp16,e5m2",
                                "scale_to=8", "scale_step=8"})["results"];
  }
  EXPECT_EQ(results[0].dump(), results[1].dump());
  for (const char* table : {"fates", "scale_sweep", "best_scale", "histogram"})
    EXPECT_EQ(results[0][table].dump(), results[2][table].dump()) << table;
}

TEST_F(UnderflowFolder, without_a_folder_there_is_no_such_table) {
  const Json report = run_underflow({"count=100", "formats=fp16", "scale_to=1"});
  EXPECT_FALSE(report["results"].contains("layers"));
  EXPECT_EQ((*find_claim(report, "published-activation-gradients"))["verdict"], "skipped");
}

TEST_F(UnderflowFolder, the_program_writes_a_valid_report) {
  const std::string report = root / "report.json";
  const Outcome run = run_halfulp({"run", "underflow", "--set", save(), "--set", "formats=fp16", "--out", report});
  EXPECT_EQ(run.status, 0) << run.err;
  const Outcome valid = run_halfulp({"validate", report}), shown = run_halfulp({"show", report, "layers"});
  EXPECT_EQ(valid.status, 0) << valid.err;
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("relu1.activation-gradient"), std::string::npos) << shown.out;
}

TEST_F(UnderflowFolder, bad_folders_are_one_line_and_no_report) {
  const std::string report = root / "report.json";
  const auto expect_bad = [&](const std::string& folder, const std::string& word) {
    const Outcome outcome = run_halfulp(
        {"run", "underflow", "--set", "input=" + (root / folder).string(), "--out", report});
    EXPECT_EQ(outcome.status, 2) << folder << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << folder;
    EXPECT_FALSE(fs::exists(report)) << folder;
  };
  save();
  const fs::path file = root / "run" / "step-000010" / "fc1.weight.gradient.npy";
  expect_bad("run/step-000010", "the folder above it");
  write_npy(file, Shape{5, 2}, std::vector<float>(10));
  expect_bad("run", "its shape is (5, 2), in gradients.json it is (2, 5)");
  fs::resize_file(file, 130);
  expect_bad("run", "truncated");
  fs::remove(file);
  expect_bad("run", "no such file");
  std::ofstream(root / "run" / "gradients.json") << "{\"version\": 1,\n";
  expect_bad("run", "gradients.json");
  fs::create_directories(root / "empty");
  expect_bad("empty", "no .npy file; accepted: a folder with gradients.json, or with .npy files");
  write_npy(root / "empty" / "none.npy", Shape{0, 3}, {});
  expect_bad("empty", "an array of shape (0, 3) holds no gradients");
  expect_bad("nowhere", "no such file");
}

}  // namespace underflow_folder_test
}  // namespace halfulp
