// The experiment "recommendation": plans against all combinations, bytes against counts by hand, errors against what
// formats allow, and what its claims say.
#include "check.hpp"
#include "training_report.hpp"

#include <halfulp/data/npy.hpp>
#include <halfulp/experiments/recommendation/recommendation.hpp>
#include <halfulp/support/files.hpp>

#include <halfulp_test_paths.hpp>

#include <cmath>
#include <filesystem>
#include <limits>

namespace halfulp::recommendation {
namespace recommendation_test {

using namespace training_report;
using training::OperatorKind;
using training::parse_storage;

Option option(const char* format, double bytes, double error) { return {parse_storage(format, "test"), bytes, error}; }

/// Some places with random bytes and errors; one option in eight fails.
std::vector<Subject> random_subjects(check::Random& random, std::size_t places) {
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  std::vector<Subject> subjects(places);
  for (std::size_t i = 0; i < places; ++i) {
    const double bytes = 4 + 400 * uniform();
    subjects[i] = {{Part::activation, OperatorKind::linear, "fc" + std::to_string(i), 1}, {option("fp32", bytes, 0)}};
    for (const char* const format : {"bf16", "e4m3", "e2m1"})
      subjects[i].options.push_back(
          option(format, bytes * uniform(), random() % 8 == 0 ? std::numeric_limits<double>::infinity() : uniform()));
  }
  return subjects;
}

TEST(Plans, NoCombinationIsBetter) {
  check::Random random{7};
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<Subject> subjects = random_subjects(random, 4);
    const std::vector<Plan> all = plans(subjects);
    EXPECT_EQ(all.front(), Plan(4, 0));
    double narrowest = 0;
    for (const Subject& subject : subjects) {
      double least = subject.options[0].bytes;
      for (const Option& o : subject.options)
        if (std::isfinite(o.error)) least = std::min(least, o.bytes);
      narrowest += least;
    }
    EXPECT_NEAR(bytes_of(subjects, all.back()), narrowest, 1e-9);
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_LT(bytes_of(subjects, all[i]), bytes_of(subjects, all[i - 1]));
      EXPECT_GE(error_of(subjects, all[i]), error_of(subjects, all[i - 1]));
    }
    for (const Plan& plan : all)
      for (std::size_t other = 0; other < 256; ++other) {
        const Plan combination{other % 4, other / 4 % 4, other / 16 % 4, other / 64};
        if (bytes_of(subjects, combination) <= bytes_of(subjects, plan)) {
          EXPECT_GE(error_of(subjects, combination), error_of(subjects, plan) - 1e-12);
        }
      }
  }
}

TEST(Plans, BecomePoliciesOfTheSameBytes) {
  std::vector<Subject> subjects;
  const auto add = [&](Part part, OperatorKind kind, const char* layer, std::uint64_t elements) {
    Subject& s = subjects.emplace_back(Subject{{part, kind, layer, elements}, {}});
    for (const char* const format : {"fp32", "bf16", "e5m2", "e4m3"})
      s.options.push_back(
          option(format, static_cast<double>(elements) * bits_of(parse_storage(format, "test")) / 8, 0));
    for (Option& o : s.options) o.loss_scale = part == Part::gradient_of_weight ? 1024 : 4096;
  };
  add(Part::weights, OperatorKind::optimizer, "", 1000);
  add(Part::first_moments, OperatorKind::optimizer, "", 1000);
  add(Part::second_moments, OperatorKind::optimizer, "", 1000);
  for (const Part part : {Part::activation, Part::gradient_of_activation, Part::gradient_of_weight}) {
    add(part, OperatorKind::linear, "fc1", 30);
    add(part, OperatorKind::linear, "fc2", 70);
    add(part, OperatorKind::relu, "relu1", 11);
  }
  check::Random random{3};
  for (int trial = 0; trial < 300; ++trial) {
    Plan plan(subjects.size());
    for (std::size_t& choice : plan) choice = random() % 4;
    const training::Policy policy = policy_of(subjects, plan, "mine", "mine");
    EXPECT_EQ(bytes_of(subjects, policy), bytes_of(subjects, plan));
    for (std::size_t i = 3; i < subjects.size(); ++i) {
      const Place& place = subjects[i].place;
      const training::Role role = place.part == Part::activation               ? training::Role::activation
                                  : place.part == Part::gradient_of_activation ? training::Role::gradient_of_activation
                                                                               : training::Role::gradient_of_weight;
      EXPECT_EQ(policy.at(place.kind, place.layer).result(role), subjects[i].options[plan[i]].storage);
    }
    bool small_range = false;
    double least = 4096;
    for (std::size_t i = 3; i < subjects.size(); ++i)
      if (subjects[i].place.part != Part::activation && plan[i] >= 2) {
        small_range = true;
        least = std::min(least, subjects[i].options[plan[i]].loss_scale);
      }
    EXPECT_EQ(policy.loss_scaling.has_value(), small_range) << "bf16 and fp32 need no loss scaling";
    if (small_range) {
      EXPECT_EQ(policy.loss_scaling->initial_scale, least) << "the least of the scales that these formats bear";
    }
  }
  // What a policy keeps beside its weights counts.
  const std::vector<Subject> weights{subjects[0]};
  EXPECT_EQ(bytes_of(weights, training::find_policy("O2")), 6000);
  EXPECT_EQ(bytes_of(weights, training::find_policy("bf16-kahan")), 4000);
  EXPECT_EQ(bytes_of(weights, training::find_policy("bf16-sr")), 2000);
}

TEST(Plans, BlocksCountTheirScales) {
  const auto bytes = [](const char* format, std::vector<Extent> tensors) {
    return bytes_of(parse_storage(format, "test"), {Part::weights, OperatorKind::optimizer, {}, 0, std::move(tensors)});
  };
  // A scale of FP32 for each row, however short; E2M1 packed, two a byte; NVFP4's scale of the tensor.
  EXPECT_EQ(bytes("fp8-1x128", {{1000, 1}}), 1000 * (1 + 4));
  EXPECT_EQ(bytes("fp8-1x128", {{30, 300}}), 30 * (300 + 3 * 4));
  EXPECT_EQ(bytes("fp8-1x128", {{2, 128}, {1, 5}}), 2 * (128 + 4) + 5 + 4);
  EXPECT_EQ(bytes("mxfp4", {{3, 33}}), 50 + 3 * 2);
  EXPECT_EQ(bytes("nvfp4", {{1, 32}}), 16 + 2 + 4);
  EXPECT_EQ(bytes("e2m1", {{1, 3}, {1, 1}}), 2 + 1);
  EXPECT_EQ(bytes("bf16", {{10, 3}}), 60);
  EXPECT_EQ(bits_of(parse_storage("fp8-1x128", "test")), 8.25);
  EXPECT_EQ(bits_of(parse_storage("mxfp4", "test")), 4.25);
  EXPECT_EQ(bits_of(parse_storage("bf16", "test")), 16);
}

TEST(Budgets, AreSharesOrBytes) {
  EXPECT_EQ(parse_budget("0.005").accuracy, 0.005);
  EXPECT_FALSE(parse_budget("0.005").bytes);
  EXPECT_EQ(parse_budget("400kB").bytes, 400e3);
  EXPECT_EQ(parse_budget("1.5MB").bytes, 1.5e6);
  EXPECT_EQ(parse_budget("2GB").bytes, 2e9);
  EXPECT_EQ(parse_budget("77B").bytes, 77);
  EXPECT_EQ(parse_budget("400 KB").bytes, 400e3);
  EXPECT_EQ(parse_budget("3KiB").bytes, 3072);
  for (const char* const wrong :
       {"", "B", "-1", "1.5", "2k", "1  kB", "400000", "nan", "inf", "0.1x", "-3MB", "1e999B"})
    EXPECT_THROW(parse_budget(wrong), std::invalid_argument) << wrong;
}

std::vector<Json> rows_of(const Json& report, const char* table) {
  std::vector<Json> rows;
  const Json& t = report.at("results").at(table);
  for (const Json& row : t["rows"]) {
    Json named = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) named[t["columns"][i]["name"].get<std::string>()] = row[i];
    rows.push_back(std::move(named));
  }
  return rows;
}

std::string data() { return std::string("data=") + HALFULP_GOLDEN + "/images"; }

const std::vector<std::string> tiny{"width=8",           "steps=12",         "seeds=1",          "batch=4",
                                    "train_examples=20", "test_examples=20", "formats=bf16,e4m3"};

Json recommendation(std::vector<std::string> settings) {
  settings.insert(settings.begin(), tiny.begin(), tiny.end());
  settings.push_back(data());
  return report_of("recommendation", settings);
}

TEST(Recommendation, BytesAreCounts) {
  const Json report = recommendation({"policies=O1,O2,pure-bf16"});
  // A perceptron of 784, 8 and 10, four images at once: what each layer puts out.
  const double weights = 784 * 8 + 8 + 8 * 10 + 10, hidden = 4 * 8, logits = 4 * 10;
  double elements = 0;
  for (const Json& row : rows_of(report, "choices")) elements += row["elements"].get<double>();
  // Weights, two moments and gradients; fc1, relu1, fc2 and the loss with its logarithms and losses.
  std::map<std::string, double> by_part;
  for (const Json& row : rows_of(report, "choices")) by_part[row["part"]] += row["elements"].get<double>();
  for (const char* const part : {"weights", "first-moments", "second-moments", "gradient-of-weight"})
    EXPECT_EQ(by_part[part], weights) << part;
  EXPECT_GE(by_part["activation"], 2 * hidden + 2 * logits);
  EXPECT_GE(by_part["gradient-of-activation"], hidden + logits);
  EXPECT_LE(by_part["gradient-of-activation"], 2 * hidden + 2 * logits);
  for (const Json& row : rows_of(report, "comparison")) {
    const double bytes = row["bytes"];
    if (row["policy"] == "fp32") { EXPECT_EQ(bytes, 4 * elements); }
    if (row["policy"] == "pure-bf16") { EXPECT_EQ(bytes, 2 * elements); }
    // FP16 but for master weights and moments.
    if (row["policy"] == "O2") { EXPECT_EQ(bytes, 2 * elements + 4 * weights + 2 * 2 * weights); }
    if (row["policy"] == "O1") { EXPECT_LT(bytes, 4 * elements); }
  }
  const auto last = rows_of(report, "comparison").back();
  EXPECT_EQ(last["policy"], "recommended");
  double chosen = 0;
  for (const Json& row : rows_of(report, "choices")) chosen += row["bytes"].get<double>();
  EXPECT_EQ(last["bytes"].get<double>(), chosen);
}

TEST(Recommendation, ErrorsAreThoseOfTheFormats) {
  const Json report = recommendation({"formats=bf16,e4m3,e2m1"});
  std::map<std::tuple<std::string, std::string, std::string>, int> chosen;
  int looked_at = 0;
  for (const Json& row : rows_of(report, "sensitivity")) {
    chosen[{row["layer"], row["operator"], row["part"]}] += row["chosen"].get<bool>();
    const Json error = row["error"];
    if (row["format"] == "fp32") { EXPECT_EQ(error, 0) << "FP32 is what errors are measured against"; }
    if (row["part"] != "gradient-of-weight") continue;
    ++looked_at;
    // Each gradient is off by half a unit at most, and not by nothing.
    if (row["format"] == "bf16") {
      EXPECT_LE(error.get<double>(), 0x1p-8);
      EXPECT_GE(error.get<double>(), 0x1p-13);
    }
    // With the loss scaled so that the largest gradients do not overflow.
    if (row["format"] == "e4m3") {
      EXPECT_LE(error.get<double>(), 0.5);
      EXPECT_GE(error.get<double>(), 0x1p-8);
    }
    if (row["format"] == "e2m1") { EXPECT_GE(error.get<double>(), 0x1p-5); }
  }
  EXPECT_GE(looked_at, 6);
  for (const auto& [place, count] : chosen) EXPECT_EQ(count, 1) << std::get<0>(place) << " " << std::get<2>(place);
}

TEST(Recommendation, SmallStepsNeedStochasticRounding) {
  const Json report = recommendation({"lr=1e-6", "formats=bf16", "steps=40"});
  double nearest = -1, stochastic = -1;
  for (const Json& row : rows_of(report, "sensitivity")) {
    if (row["part"] != "weights") continue;
    if (row["format"] == "bf16") nearest = row["error"];
    if (row["format"] == "bf16 stochastic") stochastic = row["error"];
  }
  EXPECT_GT(nearest, 0.9) << "nearly all of the way is lost";
  EXPECT_LT(stochastic, 0.5);
  EXPECT_GE(stochastic, 0);
}

TEST(Recommendation, KeepsABudgetOfBytes) {
  const Json wide = recommendation({"budget=1MB"}), narrow = recommendation({"budget=60kB"});
  const auto bytes = [](const Json& report) { return rows_of(report, "comparison").back()["bytes"].get<double>(); };
  EXPECT_LE(bytes(wide), 1e6);
  EXPECT_LE(bytes(narrow), 60e3);
  EXPECT_LT(bytes(narrow), bytes(wide));
  EXPECT_EQ(cell(narrow, "attempts", "network", "mlp", "allowed"), nullptr);
  EXPECT_NE(refused("recommendation", {"width=8", "steps=4", "seeds=1", "batch=4", "train_examples=20",
                                       "test_examples=20", data(), "budget=5B"})
                .find("budget: mlp takes "),
            std::string::npos);
}

TEST(Recommendation, TriesLessBoldPlans) {
  // No plan loses less than nothing: each attempt has at most half the error that the one before was allowed, and in
  // the end everything is FP32.
  const Json report = recommendation({"budget=0", "loss_margin=0"});
  const std::vector<Json> attempts = rows_of(report, "attempts");
  ASSERT_GE(attempts.size(), 2u);
  for (std::size_t i = 1; i < attempts.size(); ++i) {
    EXPECT_LE(attempts[i]["allowed"].get<double>(), attempts[i - 1]["allowed"].get<double>() / 2);
    EXPECT_LE(attempts[i]["error"].get<double>(), attempts[i]["allowed"].get<double>());
    EXPECT_GT(attempts[i]["bytes"].get<double>(), attempts[i - 1]["bytes"].get<double>());
  }
}

/// An attempt that two trainings can neither take nor drop is judged by four more, against FP32 with the same seeds.
TEST(Recommendation, TrainsMoreSeedsWhereFewCannotTell) {
  const Json report = recommendation({"seeds=2", "budget=0.02", "test_examples=200"});
  std::map<std::string, std::uint64_t> trainings;
  for (const Json& row : rows_of(report, "runs")) ++trainings[row["policy"]];
  const std::vector<Json> attempts = rows_of(report, "attempts");
  bool more = false;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const std::string name = "attempt " + std::to_string(i + 1);
    const bool longer = attempts[i]["seeds"] == 6;
    more = more || longer;
    EXPECT_EQ(trainings[name], 2u);
    EXPECT_EQ(trainings[name + ", more seeds"], longer ? 4u : 0u) << name;
  }
  EXPECT_TRUE(more);
  EXPECT_EQ(trainings["fp32, more seeds"], 4u);
  EXPECT_EQ(trainings["fp32"], 4u) << "those that confirm have chosen nothing";
}

TEST(Recommendation, NarrowsWhatCostsNothing) {
  // The hidden layer's results are narrow in every plan but FP32's, so what ReLU hands on is narrow without a loss.
  const Json report = recommendation({"budget=60kB", "formats=bf16"});
  std::map<std::string, std::string> activation;
  for (const Json& row : rows_of(report, "choices"))
    if (row["part"] == "activation") activation[row["layer"]] = row["format"];
  EXPECT_EQ(activation["relu1"], activation["fc1"]);
  EXPECT_EQ(activation["loss"], "fp32") << "by it the others are judged";
}

TEST(Recommendation, RefusesInOneLine) {
  for (const char* const setting : {"budget=2", "budget=x", "save_gradients=/tmp/none", "formats=", "formats=bf17",
                                    "formats=bf16,bf16", "formats=e4m3,E4M3", "formats=bf16,fp32", "policies=O7"})
    EXPECT_NE(refused("recommendation", {setting, "steps=2"}), "accepted") << setting;
  EXPECT_NE(refused("recommendation", {"tensors=/tmp", "steps=2"}).find("nothing is trained"), std::string::npos);
}

TEST(Recommendation, JudgesNothingByAFailedReference) {
  if (!no_images().empty()) GTEST_SKIP() << no_images();
  const Json report = report_of("recommendation",
                                {"eps=0", "steps=3", "seeds=1", "test_examples=50", "width=8", "train_examples=200"});
  for (const Json& claim : report["claims"]) EXPECT_EQ(claim["verdict"], "skipped") << claim;
  EXPECT_NE(report["claims"][0]["reason"].get<std::string>().find("trainings in FP32 failed"), std::string::npos)
      << report["claims"][0];
}

/// A folder with two tensors: powers of two, which every format holds, and thirds.
struct Folder {
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "recommendation_tensors";
  Folder() {
    std::filesystem::create_directories(path);
    const std::vector<float> powers{1, 2, -4, 0.5f}, thirds{1 / 3.0f, 2 / 3.0f, 1 / 3.0f, -2 / 3.0f};
    write_npy((path / "powers.npy").string(), std::vector<std::uint64_t>{2, 2}, powers);
    write_npy((path / "thirds.npy").string(), std::vector<std::uint64_t>{4}, thirds);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(Tensors, TakeTheNarrowestWithinTheBudget) {
  const Folder folder;
  const auto formats_at = [&](const std::string& budget) {
    const Json report = report_of("recommendation",
                                  {"tensors=" + folder.path.string(), "budget=" + budget, "formats=bf16,e4m3"});
    EXPECT_EQ(report["claims"][0]["verdict"], "pass") << budget;
    std::string all;
    for (const Json& row : rows_of(report, "tensors"))
      if (row["chosen"].get<bool>())
        all += row["tensor"].get<std::string>() + " " + row["format"].get<std::string>() + " ";
    return all;
  };
  // A third is 1.0101...b x 2^-2: in E4M3 it is 0.34375, off by 1/32; in BF16 off by 1/512.
  EXPECT_EQ(formats_at("0.04"), "powers e4m3 thirds e4m3 ");
  EXPECT_EQ(formats_at("0.031"), "powers e4m3 thirds bf16 ");
  EXPECT_EQ(formats_at("0.01"), "powers e4m3 thirds bf16 ");
  EXPECT_EQ(formats_at("0.0001"), "powers e4m3 thirds fp32 ");
  EXPECT_EQ(formats_at("12B"), "powers e4m3 thirds bf16 ");
  EXPECT_EQ(formats_at("8B"), "powers e4m3 thirds e4m3 ");
  EXPECT_NE(refused("recommendation", {"tensors=" + folder.path.string(), "budget=7B", "formats=bf16,e4m3"}),
            "accepted");
}

TEST(Tensors, SmallValuesCountAsLargeOnesDo) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "recommendation_small";
  std::filesystem::create_directories(path);
  const auto write = [&](const char* name, const std::vector<double>& values) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
    header.resize(117, ' ');
    std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    write_file((path / name).string(), bytes);
  };
  write("tiny.npy", {1e-310, -3e-310});
  write("huge.npy", {1e200, 1e-200});
  const Json report = report_of("recommendation", {"tensors=" + path.string(), "formats=bf16"});
  for (const Json& row : rows_of(report, "tensors")) {
    // Of the tiny ones nothing is left, and the huge one is Inf.
    if (row["tensor"] == "tiny") { EXPECT_EQ(row["relative_error"], 1) << row; }
    if (row["tensor"] == "huge") { EXPECT_EQ(row["relative_error"], "Infinity") << row; }
  }
  EXPECT_EQ(report["claims"][0]["verdict"], "differs");
  EXPECT_NE(report["claims"][0]["reason"].get<std::string>().find("huge: fp32"), std::string::npos);
  std::filesystem::remove_all(path);
}

}  // namespace recommendation_test
}  // namespace halfulp::recommendation
