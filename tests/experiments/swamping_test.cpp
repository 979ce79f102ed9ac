// The science of `swamping`, computed a second time: by rationals where a sum is lost, in doubles over many steps.
#include <halfulp/data/distributions.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/data/statistics.hpp>
#include <halfulp/experiments/swamping/swamping.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <map>

namespace swamping_test {

using namespace halfulp;

Json run_swamping(const std::vector<std::string>& settings) {
  const Experiment& experiment = find_experiment("swamping");
  Config config(experiment.parameters());
  for (const std::string setting : {"count=2000", "training_steps=200", "seeds=50", "steps=100"})
    config.set(std::string_view(setting));
  for (const std::string& setting : settings) config.set(std::string_view(setting));
  Report report("swamping", "test", config);
  Trace trace(1000);
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  return report.to_json();
}

/// Rows of a table as column -> cell.
std::vector<std::map<std::string, Json>> rows(const Json& report, const std::string& table) {
  std::vector<std::map<std::string, Json>> all;
  const Json& t = report["results"][table];
  for (const Json& row : t["rows"]) {
    auto& named = all.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) named[t["columns"][i]["name"]] = row[i];
  }
  return all;
}

/// x to nearest even with p bits and a smallest exponent, in doubles.
double quantized(double x, int precision, int emin) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), emin) - precision + 1);
  return std::nearbyint(x / unit) * unit;
}

/// Whether w + u rounds to w, by looking for the two neighbours of the exact sum among all values of the format.
bool lost_by_search(const FloatFormat& f, RoundingMode mode, std::uint64_t w, double u) {
  const double x = f.value(w) + u;  // exact: few bits, near exponents
  double below = -HUGE_VAL, above = HUGE_VAL;
  bool below_odd = false, above_odd = false;
  for (std::uint64_t c = 0; c <= f.code_mask(); ++c) {
    if (!f.is_finite(c)) continue;
    const double v = f.value(c);
    if (v <= x && v > below) below = v, below_odd = c % 2;
    if (v >= x && v < above) above = v, above_odd = c % 2;
  }
  double to = below;
  const bool nearer_above = above - x < x - below, tie = above - x == x - below;
  if (below != above) switch (mode) {
      case RoundingMode::nearest_even: to = nearer_above || (tie && below_odd) ? above : below; break;
      case RoundingMode::nearest_away: to = nearer_above || (tie && x > 0) ? above : below; break;
      case RoundingMode::nearest_to_zero: to = nearer_above || (tie && x < 0) ? above : below; break;
      case RoundingMode::toward_zero: to = x > 0 ? below : above; break;
      case RoundingMode::toward_positive: to = above; break;
      case RoundingMode::toward_negative: to = below; break;
      default: to = above_odd ? above : below;
    }
  return to == f.value(w);
}

TEST(Swamping, DefinitionAgreesWithASearchOfAllNumbers) {
  for (const FloatFormat& f : {e4m3, e5m2, e3m4, e3m2, e2m3})
    for (const auto& [name, mode] : rounding_modes) {
      if (mode == RoundingMode::stochastic) continue;
      for (std::uint64_t w = 1; w + 1 < f.max_finite(); w += f.storage_bits() > 6 ? 5 : 1)
        for (const bool negative : {false, true})
          for (int eighth = 1; eighth <= 20; ++eighth)
            for (const double sign : {1.0, -1.0}) {
              // Updates from an eighth of the gap above w upwards, ties included.
              const double u = sign * FloatFormat::power_of_two(f.exponent(w)) * eighth / 16;
              const std::uint64_t code = f.with_sign(w, negative);
              ASSERT_EQ(swamping::swamped_by_definition(f, mode, code, u), lost_by_search(f, mode, code, u))
                  << name << " w = " << f.value(code) << ", u = " << u;
            }
    }
}

TEST(Swamping, DefaultClaimsHold) {
  const Json report = run_swamping({});
  EXPECT_EQ(report["status"], "pass");
  std::map<std::string, Json> measured;
  for (const Json& claim : report["claims"]) measured[claim["id"]] = claim["measured"];
  EXPECT_EQ(measured["published-2048"], 2048.0);
  EXPECT_EQ(measured["lost-at-one-bf16"], 256.0);
  EXPECT_EQ(measured["lost-at-one-e4m3"], 16.0);
  EXPECT_EQ(measured["lost-at-one-e5m2"], 8.0);
  EXPECT_EQ(measured["kept-below-two-fp16"], 4094.0);
}

TEST(Swamping, NothingIsClaimedOfUpdatesThatWereNotChecked) {
  const Json report = run_swamping({"formats=bf16", "roundings=stochastic"});
  for (const Json& claim : report["claims"])
    if (claim["id"] == "every-random-update") { EXPECT_EQ(claim["verdict"], "skipped") << claim; }
}

/// A tiny learning rate vanishes and its gradient overflows; a huge one overflows itself: no update, and none is
/// judged.
TEST(Swamping, LearningRatesBeyondTheRange) {
  for (const std::string lr : {"1e-29", "1e6"}) {
    const Json report = run_swamping({"formats=fp16,e4m3", "lr=" + lr});
    EXPECT_EQ(report["status"], "pass") << lr;
    for (auto& row : rows(report, "ratios"))
      EXPECT_TRUE(row["ratio"].is_null() && row["arrived"].is_null() && row["exact"].is_null() &&
                  row["fate"] != "moved")
          << lr << row["fate"];
    for (auto& row : rows(report, "population")) EXPECT_EQ(row["no_update"], 1.0);
  }
}

/// Formats so small that many steps may reach their end: E2M1 stays at 6, E5M2's chain ends before Infinity, E2M1 with
/// infinities leaves its range in earnest.
TEST(Swamping, WeightsNearTheEndOfTheRange) {
  for (const std::string format : {"e2m1", "e5m2", "e4m3", "e2m2", "e2m1ieee"})
    for (const std::string binades : {"0", "3", "12"}) {
      const Json report = run_swamping(
          {"formats=" + format, "binades_below=" + binades, "repair_steps=1000", "seeds=200", "random_bits=32"});
      for (const Json& claim : report["claims"])
        EXPECT_NE(claim["verdict"], "fail")
            << format << binades << claim["id"] << claim["expected"] << claim["measured"];
      for (auto& row : rows(report, "stochastic"))
        EXPECT_TRUE(row["predicted_mean"].is_number() && row["predicted_mean"] < 2.0) << row["predicted_mean"];
    }
  const Json report = run_swamping({"formats=e2m1ieee", "binades_below=0", "random_bits=32"});
  for (const Json& claim : report["claims"])
    if (claim["id"] == "stochastic-e2m1ieee-32-bits") { EXPECT_EQ(claim["verdict"], "skipped") << claim; }
}

/// 1 + steps * u of fp64 is no double: errors are measured without it.
TEST(Swamping, RepairsOfFp64AreJudgedExactly) {
  const Json report = run_swamping({"formats=fp64", "binades_below=4", "repair_steps=100"});
  for (const Json& claim : report["claims"]) EXPECT_NE(claim["verdict"], "fail") << claim["id"] << claim["measured"];
}

/// A weight that saturates, or stays at the largest number because it is rounded down, is not swamped.
TEST(Swamping, UpdatesThatOverflowAreNotJudged) {
  const Json report = run_swamping(
      {"formats=e6m9finite,e3m2", "roundings=toward-positive,toward-zero,to-odd", "log2_weight=15", "log2_gradient=7"});
  for (const Json& claim : report["claims"]) EXPECT_NE(claim["verdict"], "fail") << claim["id"] << claim["measured"];
}

TEST(Swamping, StepsAreThoseOfASecondComputation) {
  const Json report = run_swamping({"formats=fp16,bf16,e4m3", "roundings=nearest-even", "ratios=3,20,100,1000,3000"});
  const std::map<std::string, std::pair<int, int>> shape{{"fp16", {11, -14}}, {"bf16", {8, -126}}, {"e4m3", {4, -6}}};
  int moved = 0, swamped = 0;
  for (auto& row : rows(report, "ratios")) {
    const auto [precision, emin] = shape.at(row["format"]);
    const double lr = quantized(0.1, precision, emin),
                 g = quantized(1 / row["asked_ratio"].get<double>() / 0.1, precision, emin);
    double w = 1;
    for (int i = 0; i < 100; ++i) {
      const double u = row["form"] == "fused" ? lr * g : quantized(lr * g, precision, emin);
      w = quantized(w + u, precision, emin);
      if (i == 0) { EXPECT_EQ(row["after_one"]["value"], w); }
    }
    EXPECT_EQ(row["after_all"]["value"], w) << row["format"] << row["form"] << row["asked_ratio"];
    moved += row["fate"] == "moved";
    swamped += row["fate"] == "swamped";
  }
  EXPECT_GT(moved, 5);
  EXPECT_GT(swamped, 5);
}

TEST(Swamping, RepairsAreThoseOfASecondComputation) {
  const Json report = run_swamping({"formats=bf16", "repair_steps=300", "random_bits=3,16"});
  std::map<std::string, std::map<std::string, Json>> by_method;
  for (auto& row : rows(report, "repairs")) by_method[row["method"]] = row;
  const double u = by_method["kahan"]["update"];
  const int steps = by_method["kahan"]["steps"];
  EXPECT_EQ(u, quantized(u, 8, -126));
  EXPECT_EQ(steps, 300);
  double w = 1, c = 0, master = 1;
  for (int i = 0; i < steps; ++i) {
    const double y = quantized(u - c, 8, -126), t = quantized(w + y, 8, -126);
    c = quantized(quantized(t - w, 8, -126) - y, 8, -126);
    w = t;
    master = quantized(master + u, 24, -126);
  }
  EXPECT_EQ(by_method["nearest-even"]["weight"], 1.0);
  EXPECT_EQ(by_method["kahan"]["weight"], w);
  EXPECT_EQ(by_method["fp32-master"]["weight"], quantized(master, 8, -126));
  // Below 2 every step is one throw of the same coin: a binomial number of ulps.
  for (auto& row : rows(report, "stochastic")) {
    const double scale = std::ldexp(1.0, row["random_bits"].get<int>()), p = std::floor(u / 0x1p-7 * scale) / scale;
    EXPECT_NEAR(row["predicted_mean"].get<double>(), 1 + steps * p * 0x1p-7, 1e-9);
    EXPECT_NEAR(row["predicted_deviation"].get<double>(), 0x1p-7 * std::sqrt(steps * p * (1 - p)), 1e-9);
  }
}

TEST(Swamping, Statistics) {
  EXPECT_NEAR(student_975(9), 2.262157, 1e-3);
  EXPECT_NEAR(student_975(30), 2.042272, 1e-5);
  EXPECT_NEAR(student_975(199), 1.971957, 1e-6);
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const MeanInterval interval = mean_interval(values);
  EXPECT_EQ(interval.mean, 5.5);
  EXPECT_NEAR(interval.high - interval.mean, 2.262157 * std::sqrt(82.5 / 9 / 10), 1e-3);
  EXPECT_NEAR(interval.high - interval.mean, interval.mean - interval.low, 1e-12);
}

TEST(Swamping, ThreadsDoNotShow) {
  std::array<Json, 2> results;
  for (std::size_t threads = 1; threads <= 2; ++threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    results[threads - 1] = run_swamping({})["results"];
  }
  EXPECT_EQ(results[0].dump(), results[1].dump());
}

TEST(Swamping, FormatsWithoutOneAndTwoAreRefused) {
  for (const std::string format : {"e8m0", "e5m0", "e2m3b5"}) {
    try {
      run_swamping({"formats=" + format});
      ADD_FAILURE() << format << " accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(format), std::string::npos);
    }
  }
}

}  // namespace swamping_test
