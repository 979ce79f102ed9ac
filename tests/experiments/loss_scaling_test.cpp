// The experiment `loss_scaling`: ranges of scales against the gradients it saved, static scales, the law of dynamic
// ones, and collapse. Networks learn from a few made-up images.
#include <halfulp/data/npy.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/schema.hpp>
#include <halfulp/experiments/loss_scaling/loss_scaling.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

namespace halfulp {
namespace loss_scaling_test {

namespace fs = std::filesystem;

std::string idx(const std::vector<unsigned>& shape, const std::string& values) {
  std::string bytes{0, 0, 8, static_cast<char>(shape.size())};
  for (const unsigned extent : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift & 255);
  return bytes + values;
}

/// Images whose class is the bright rows, with a pattern that differs from image to image.
class LossScaling : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = fs::path(::testing::TempDir()) / ("halfulp-loss-scaling-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    write("train", 64);
    write("t10k", 32);
    saved = (folder / "gradients").string();
    report = run({"scales=0,3,24", "initial=0,32", "growth_interval=3", "formats=fp16,e5m2,e4m3", "gradient_steps=9",
                  "k_from=-4", "k_to=34", "save_gradients=" + saved});
  }
  static void TearDownTestSuite() { fs::remove_all(folder); }
  static void write(const std::string& which, unsigned count) {
    std::string pixels, labels;
    for (unsigned i = 0; i < count; ++i) {
      labels += static_cast<char>(i % 10);
      for (unsigned p = 0; p < 784; ++p)
        pixels += static_cast<char>(p / 78 == i % 10 ? 200 + (i * 31 + p * 7) % 56 : (i * 13 + p * 5) % 40);
    }
    std::ofstream(folder / (which + "-images-idx3-ubyte"), std::ios::binary) << idx({count, 28, 28}, pixels);
    std::ofstream(folder / (which + "-labels-idx1-ubyte"), std::ios::binary) << idx({count}, labels);
  }
  static Json run(const std::vector<std::string>& settings) {
    const Experiment& experiment = find_experiment("loss_scaling");
    Config config(experiment.parameters());
    for (const std::string& setting :
         {"data=" + folder.string(), std::string("width=8"), std::string("batch=16"), std::string("steps=40")})
      config.set(setting);
    for (const std::string& setting : settings) config.set(setting);
    Report made("loss_scaling", "test", config);
    Trace trace(1000);
    halfulp::Run with{made, trace, [](double) {}};
    experiment.run(config, with);
    return made.to_json();
  }
  static std::string refusal(const std::vector<std::string>& settings) {
    try {
      run(settings);
    } catch (const std::invalid_argument& error) { return error.what(); }
    return "accepted";
  }
  /// Rows as objects.
  static std::vector<Json> rows(const std::string& table) {
    std::vector<Json> all;
    const Json& t = report["results"].at(table);
    for (const Json& row : t["rows"]) {
      Json object;
      for (std::size_t i = 0; i < row.size(); ++i) object[t["columns"][i]["name"].get<std::string>()] = row[i];
      all.push_back(object);
    }
    return all;
  }
  static Json row(const std::string& table, const Json& where) {
    for (const Json& row : rows(table)) {
      bool matches = true;
      for (const auto& [name, value] : where.items()) matches = matches && row.at(name) == value;
      if (matches) return row;
    }
    ADD_FAILURE() << "no row of " << table << " with " << where;
    return {};
  }

  static inline fs::path folder;
  static inline std::string saved;
  static inline Json report;
};

/// All gradients that the run saved, of that kind; of each kind for `unknown`.
std::vector<double> saved_values(const std::string& folder, GradientKind kind) {
  std::vector<double> values;
  for (const SavedGradient& tensor : read_gradients(folder).gradients) {
    EXPECT_EQ(tensor.scale, 1) << tensor.name;
    if (kind != GradientKind::unknown && tensor.kind != kind) continue;
    NpyReader reader(tensor.path);
    std::vector<std::uint64_t> codes(4096);
    for (std::size_t n = reader.read(codes); n > 0; n = reader.read(codes))
      for (std::size_t i = 0; i < n; ++i) values.push_back(tensor.format.value(codes[i]));
  }
  return values;
}

TEST_F(LossScaling, RangesAndSharesAreThoseOfTheSavedGradients) {
  const std::pair<const char*, GradientKind> kinds[] = {{"both", GradientKind::unknown},
                                                        {"weight", GradientKind::of_weight},
                                                        {"activation", GradientKind::of_activation}};
  // Where a format rounds to zero, the tie included, and from where it overflows.
  struct Ends {
    double zero, overflow;
  };
  const std::map<std::string, Ends> formats{
      {"fp16", {0x1p-25, 65520}}, {"e5m2", {0x1p-17, 61440}}, {"e4m3", {0x1p-10, std::nextafter(464.0, 500.0)}}};
  for (const auto& kind : kinds) {
    const std::vector<double> values = saved_values(saved, kind.second);
    ASSERT_GT(values.size(), 1000u);
    double smallest = HUGE_VAL, largest = 0;
    std::size_t zero = 0, below = 0, subnormal = 0;
    for (const double v : values) {
      const double m = std::fabs(v);
      zero += m == 0, below += m > 0 && m < 0x1p-24, subnormal += m >= 0x1p-24 && m < 0x1p-14;
      if (m > 0) smallest = std::min(smallest, m);
      largest = std::max(largest, m);
    }
    const double n = static_cast<double>(values.size()), other = n - static_cast<double>(zero);
    const Json gradients = row("gradients", {{"tensor", "all"}, {"kind", kind.first}});
    EXPECT_EQ(gradients["values"], values.size());
    EXPECT_EQ(gradients["zero"], static_cast<double>(zero) / n);
    EXPECT_EQ(gradients["below_2_24"], static_cast<double>(below) / n);
    EXPECT_EQ(gradients["from_2_24"], static_cast<double>(subnormal) / n);
    EXPECT_EQ(gradients["smallest_exponent"], std::ilogb(smallest));
    EXPECT_EQ(gradients["largest_exponent"], std::ilogb(largest));
    for (const auto& format : formats) {
      int from = -100, to = -100;
      while (std::ldexp(smallest, from) <= format.second.zero) ++from;
      while (std::ldexp(largest, to + 1) < format.second.overflow) ++to;
      const Json range = row("ranges", {{"tensor", "all"}, {"kind", kind.first}, {"format", format.first}});
      EXPECT_EQ(range["k_from"], from) << range;
      EXPECT_EQ(range["k_to"], to) << range;
      EXPECT_EQ(range["recovered"], from <= to ? "all" : "none") << range;
      for (int k = -4; k <= 34; ++k) {
        std::size_t lost = 0, overflowed = 0;
        for (const double v : values) {
          const double m = std::ldexp(std::fabs(v), k);
          lost += v != 0 && m <= format.second.zero, overflowed += m >= format.second.overflow;
        }
        const Json recovery = row("recovery", {{"k", k}, {"kind", kind.first}, {"format", format.first}});
        EXPECT_EQ(recovery["lost"], static_cast<double>(lost) / other) << recovery;
        EXPECT_EQ(recovery["overflowed"], static_cast<double>(overflowed) / other) << recovery;
      }
    }
  }
}

TEST_F(LossScaling, StaticScales) {
  EXPECT_EQ(rows("static").size(), 6u);
  for (const char* skip : {"yes", "no"}) {
    const Json eight = row("static", {{"k", 3}, {"skip", skip}});
    EXPECT_EQ(eight["skipped"], 0);
    EXPECT_EQ(eight["failed"], 0);
    EXPECT_EQ(eight["overflowed"], 0.0);
    EXPECT_LE(eight["lost"], row("static", {{"k", 0}, {"skip", skip}})["lost"]);
  }
  // A batch of 16 has gradients of the loss above 2^-8, and 2^24 2^-8 is beyond fp16 in each step.
  const Json skipping = row("static", {{"k", 24}, {"skip", "yes"}}), blind = row("static", {{"k", 24}, {"skip", "no"}});
  EXPECT_EQ(skipping["skipped"], 40);
  EXPECT_EQ(skipping["failed"], 0);
  EXPECT_GT(skipping["overflowed"], 0.0);
  EXPECT_EQ(skipping["first_infinite"], "step 1: loss, gradient-of-activation");
  EXPECT_EQ(blind["skipped"], 0);
  EXPECT_EQ(blind["failed"], 1);
  EXPECT_EQ(blind["accuracy"], 0.0);
}

TEST_F(LossScaling, TheEndsOfTheRange) {
  const Json range = row("ranges", {{"tensor", "all"}, {"kind", "both"}, {"format", "fp16"}});
  std::set<int> scales;
  for (const Json& end : rows("ends")) {
    scales.insert(end["k"].get<int>());
    EXPECT_EQ(end["steps"], 9);
    const bool above = end["k"] > range["k_to"], below = end["k"] < range["k_from"];
    EXPECT_EQ(end["predicted_overflowed"] > 0.0, above) << end;
    EXPECT_EQ(end["predicted_lost"] > 0.0, below) << end;
  }
  for (const int k : {0, range["k_from"].get<int>(), range["k_to"].get<int>(), range["k_to"].get<int>() + 1,
                      range["k_to"].get<int>() + 2})
    EXPECT_TRUE(scales.contains(k)) << k;
}

TEST_F(LossScaling, DynamicScalesObeyTheirLaw) {
  std::map<std::string, std::vector<Json>> courses;
  for (const Json& change : rows("scale_course")) courses[change["variant"]].push_back(change);
  ASSERT_EQ(courses.size(), 5u);
  const std::map<std::string, std::pair<double, int>> settings{{"amp-fp16-dynamic", {65536, 2000}},
                                                               {"amp-fp16-dynamic-0-every-3", {1, 3}},
                                                               {"amp-fp16-dynamic-32-every-3", {0x1p32, 3}},
                                                               {"amp-fp16-collapse-lr", {65536, 2000}},
                                                               {"amp-fp16-collapse-nan", {65536, 2000}}};
  for (const auto& [variant, course] : courses) {
    const auto& [initial, interval] = settings.at(variant);
    EXPECT_EQ(course.front()["event"], "began");
    EXPECT_EQ(course.front()["scale"], initial);
    int last = 0;  // the step of the last change
    for (std::size_t i = 1; i < course.size(); ++i) {
      const double before = course[i - 1]["scale"], after = course[i]["scale"];
      const int step = course[i]["step"], since = step - last;
      if (course[i]["event"] == "grew") {
        EXPECT_EQ(after, 2 * before) << variant;
        EXPECT_EQ(since, interval) << variant;  // nothing overflowed between, or there would be a row
      } else {
        EXPECT_EQ(after, static_cast<double>(static_cast<float>(before / 2))) << variant;
        EXPECT_LE(since, interval) << variant;
      }
      last = step;
    }
  }
  const Json up = row("dynamic", {{"k_initial", 0}}), down = row("dynamic", {{"k_initial", 32}});
  EXPECT_EQ(up["first_good"], 1);
  EXPECT_EQ(up["lowest"], 1.0);
  EXPECT_EQ(up["grew"], 13);  // 40 steps, none skipped up to 2^13
  EXPECT_EQ(up["highest"], 8192.0);
  EXPECT_EQ(down["highest"], 0x1p32);
  EXPECT_GE(down["first_good"], 9);  // 2^32 2^-8 stays beyond fp16 for so many halvings
  int falls = 0;                     // steps in a row from the first on
  for (const Json& change : courses.at("amp-fp16-dynamic-32-every-3"))
    falls += change["event"] == "backed-off" && change["step"] == falls + 1;
  EXPECT_EQ(down["first_good"], falls + 1);
  EXPECT_GT(down["skipped"], falls);  // it grows again to where gradients overflow
}

TEST_F(LossScaling, Collapse) {
  const auto all = rows("collapse");
  ASSERT_EQ(all.size(), 2u);
  for (const Json& collapse : all) {
    EXPECT_EQ(collapse["to_one"], 16) << collapse;
    EXPECT_EQ(collapse["to_subnormal"], 143) << collapse;
    EXPECT_EQ(collapse["to_zero"], 166) << collapse;
    EXPECT_EQ(collapse["final_scale"], 0.0) << collapse;
    EXPECT_NE(collapse["streak"].get<std::string>().find("166 updates in a row found Inf or NaN"), std::string::npos)
        << collapse;
  }
  // Activations that overflow make NaN gradients, which are noticed at every scale.
  EXPECT_NE(all[0]["first_infinite"].get<std::string>().find(", activation"), std::string::npos) << all[0];
  EXPECT_TRUE(all[0]["unnoticed"].is_null());
  EXPECT_TRUE(all[0]["failed_at"].is_null());
  EXPECT_EQ(all[0]["skipped_after"], 196 - all[0]["zero_at"].get<int>());
  // Without a cause any more, a scale of zero makes NaN that nothing notices.
  EXPECT_TRUE(all[1]["first_infinite"].is_null());
  EXPECT_EQ(all[1]["zero_at"], 166);
  EXPECT_EQ(all[1]["skipped_after"], 10);
  EXPECT_EQ(all[1]["unnoticed"], 177);
  EXPECT_EQ(all[1]["failed_at"], 177);
}

TEST_F(LossScaling, ClaimsHoldOrSayWhyNot) {
  for (const std::string& error : report_errors(report))
    if (!error.starts_with("/environment")) ADD_FAILURE() << error;  // which runs of the command line have
  std::map<std::string, std::string> verdicts;
  for (const Json& claim : report["claims"]) {
    EXPECT_NE(claim["verdict"], "fail") << claim;
    verdicts[claim["id"]] = claim["verdict"];
  }
  for (const char* id :
       {"mlp-every-fate", "mlp-ranges", "grad-scaler-defaults", "sixteen-overflows", "scale-reaches-zero",
        "zero-scale-unnoticed", "mlp-amp-fp16-collapse", "mlp-amp-fp16-unnoticed", "mlp-amp-fp16-diverging"})
    EXPECT_EQ(verdicts[id], "pass") << id;
}

TEST(LossScalingClaims, OfANetworkWithoutData) {
  Report report("loss_scaling", "test", Config({}));
  trainings::skip_loss_scaling("mlp", "amp-fp16", "no images", report);
  EXPECT_EQ(report.claims().size(), 8u);
  for (const Claim& claim : report.claims()) {
    EXPECT_EQ(claim.verdict, Verdict::skipped);
    EXPECT_EQ(claim.reason, "no images");
  }
}

TEST_F(LossScaling, RefusesInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"scales=4,5,4", "'scales': 4 is there twice"},
      {"initial=3,3", "'initial': 3 is there twice"},
      {"scales=127", "scales"},
      {"k_from=35", "k_from is 35, more than k_to, which is 34"},
      {"formats=e8m0", "formats: e8m0; accepted: formats with a zero and at most 8 exponent bits"},
      {"formats=fp64", "formats: fp64; accepted"},
      {"policies=amp-fp15", "amp-fp16"},
      {"growth_interval=0", "growth_interval"},
      {"data=/no/such/folder", "/no/such/folder"},
  };
  for (const auto& [setting, message] : cases) {
    const std::string why = refusal({"k_to=34", setting});
    EXPECT_NE(why.find(message), std::string::npos) << setting << ": " << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
  }
}

}  // namespace loss_scaling_test
}  // namespace halfulp
