// The experiment "grad_scaler": its tables against GradScaler's rules and against sums by hand, and what its claims say
// where nothing can be seen.
#include "experiment_run.hpp"

#include <halfulp/experiments/grad_scaler/grad_scaler.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace halfulp::grad_scaler {
namespace grad_scaler_test {

using tests::refusal_of, tests::report_of;
using Row = std::map<std::string, Json>;

std::vector<Row> rows(const Json& report, const std::string& table) {
  std::vector<Row> all;
  const Json& t = report["results"].at(table);
  for (const Json& row : t["rows"]) {
    Row& object = all.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) object[t["columns"][i]["name"].get<std::string>()] = row[i];
  }
  return all;
}

std::string verdict(const Json& report, const std::string& id) {
  for (const Json& claim : report["claims"])
    if (claim["id"] == id) return claim["verdict"];
  return "no such claim";
}

double real(const Json& cell) { return cell.get<double>(); }

TEST(GradScalerRegression, the_gradient_is_the_distance_from_the_solution) {
  Weights t{};
  for (std::size_t j = 0; j < examples; ++j) t[j] = static_cast<float>(j) - 5;
  Regression r(t);
  double half_square = 0;
  for (const float x : t) half_square += static_cast<double>(x) * static_cast<double>(x) / 2;
  EXPECT_EQ(r.loss(false), half_square);
  r.backward(1, false);
  for (std::size_t j = 0; j < examples; ++j) EXPECT_EQ(r.gradient[j], -t[j]);
  r.zero_gradient();
  for (const std::size_t from : {0u, 4u, 8u, 12u}) r.backward(8, true, from, from + 4);
  for (std::size_t j = 0; j < examples; ++j) EXPECT_EQ(r.gradient[j], -8 * t[j]) << "FP16 holds these";
  r.take_step(0.125f);
  EXPECT_EQ(r.weights, t);
  EXPECT_EQ(r.loss(true), 0);
  r.zero_gradient();
  r.weights = {};
  r.backward(65536, true);
  for (const float g : r.gradient) EXPECT_FALSE(std::isfinite(g)) << "40 / 16 of 65536 overflows, and reaches all";
}

TEST(GradScalerRegression, even_solutions_have_even_errors) {
  Regression r(even_solution(0.5f));
  for (std::size_t i = 0; i < examples; ++i) {
    r.zero_gradient();
    r.backward(1, false, i, i + 1);
    // A part of 1/16 each, of a gradient of the norm 2, and orthogonal to the others.
    EXPECT_DOUBLE_EQ(norm(r.gradient), 0.5) << i;
  }
}

TEST(GradScaler, several_optimizers_by_the_rule) {
  const Json report = report_of("grad_scaler", {});
  EXPECT_EQ(report["status"], "pass");
  for (const Json& claim : report["claims"]) EXPECT_EQ(claim["verdict"], "pass") << claim;
  std::map<std::string, double> scales;
  std::set<std::string> ways;
  for (Row& row : rows(report, "several")) {
    const std::string way = row["way"], infinite = row["infinite"];
    ways.insert(way);
    double& scale = scales.try_emplace(way, 65536).first->second;
    EXPECT_EQ(row["scale"], scale);
    const bool in[] = {infinite == "0" || infinite == "both", infinite == "1" || infinite == "both"};
    const double before = scale;
    if (way == "update after each optimizer") scale /= (in[0] ? 2 : 1) * (in[1] ? 2 : 1);
    else if (in[0] || in[1]) scale /= 2;
    EXPECT_EQ(row["scale_after"], scale);
    for (int n = 0; n < 2; ++n) {
      const std::string which = std::to_string(n);
      EXPECT_EQ(row["taken_" + which], in[n] ? "no" : "yes");
      double part = 1;
      if (n == 1 && way == "update after each optimizer" && in[0]) part = 2;
      if (n == 1 && way == "loss 1 not scaled") part = 1 / before;
      if (in[n]) EXPECT_TRUE(row["part_" + which].is_null());
      else EXPECT_NEAR(real(row["part_" + which]) / part, 1, 1e-4) << way << infinite;
    }
  }
  EXPECT_EQ(ways.size(), 3u);
}

TEST(GradScaler, clipping_by_closed_forms) {
  const Json report = report_of("grad_scaler", {"scales=0,10", "max_norm=0.125", "steps=7", "learning_rate=0.1"});
  EXPECT_EQ(report["status"], "pass");
  EXPECT_EQ(rows(report, "clipping").size(), 4u);
  for (Row& row : rows(report, "clipping")) {
    const double scale = std::ldexp(1, row["k"]), by = row["when"] == "before" ? scale : 1, length = 0.125 / by;
    EXPECT_NEAR(real(row["norm"]), 0.25 * by, 1e-9);
    EXPECT_NEAR(real(row["coefficient"]), 0.5 / by, 1e-5);
    EXPECT_NEAR(real(row["clipped"]) / length, 1, 1e-5);
    EXPECT_NEAR(real(row["to_fp32"]) * by, 1, 1e-5);
    EXPECT_EQ(row["first_loss"], 0.03125);
    EXPECT_NEAR(real(row["last_loss"]) / (std::pow(0.25 - 7 * 0.1 * length, 2) / 2), 1, 1e-3);
    EXPECT_NEAR(real(row["fp32_loss"]) / (std::pow(0.25 - 7 * 0.1 * 0.125, 2) / 2), 1, 1e-4);
  }
}

TEST(GradScaler, accumulation_by_fractions) {
  const Json report = report_of("grad_scaler", {"micro_batches=1,2,16"});
  EXPECT_EQ(rows(report, "accumulation").size(), 15u);
  for (Row& row : rows(report, "accumulation")) {
    const std::string way = row["way"];
    const double n = row["micro_batches"];
    const bool infinite = way == "as documented, Inf in the first", each = way == "unscaled after each micro-batch",
               moves = way == "scale doubled after half of them" && n > 1;
    EXPECT_EQ(row["taken"], infinite ? "no" : "yes");
    EXPECT_EQ(row["refused"], each && n > 1 ? "yes" : "no");
    EXPECT_EQ(row["scale_after"], infinite ? 32768.0 : moves ? 131072.0 : 65536.0);
    if (infinite) {
      EXPECT_TRUE(row["part"].is_null());
      continue;
    }
    // 1 + 1/S + 1/S^2 + ... is S / (S - 1), up to S^-n.
    const double part = each                                          ? (n > 1 ? 65536.0 / 65535 : 1) / n
                        : moves                                       ? 0.75
                        : way == "losses not divided by their number" ? n
                                                                      : 1;
    EXPECT_NEAR(real(row["part"]) / part, 1, 3e-10) << way << " " << n;
  }
}

TEST(GradScaler, resuming_by_powers) {
  const double rate = 0.125, largest = 48;
  const int steps = 10;
  const Json report = report_of("grad_scaler", {"steps=10"});
  EXPECT_EQ(report["status"], "pass");
  double square = 0;  // of the solution's weights, in units of largest / 16
  for (int j = 1; j <= 16; ++j) square += j * j;
  const auto loss = [&](int taken) { return square * std::pow(largest / 16, 2) / 2 * std::pow(1 - rate, 2 * taken); };
  const auto halved = [&](int taken) {  // until the largest gradient fits
    int n = 0;
    while (largest * std::pow(1 - rate, taken) * std::ldexp(1, 16 - n) >= 65520) ++n;
    return n;
  };
  const int begin = halved(0);
  ASSERT_EQ(begin, 6);
  for (Row& row : rows(report, "resuming")) {
    const bool half = row["from"] == "amp", then = row["to"] == "amp";
    const int taken = steps - (half ? begin : 0);
    const std::string scaler = row["scaler"];
    const int skipped = scaler == "new" || scaler == "forgotten" ? halved(taken) : 0;
    EXPECT_EQ(row["skipped"], skipped) << scaler;
    EXPECT_EQ(row["scale_before"], half ? std::ldexp(1, 16 - begin) : 1.0);
    EXPECT_EQ(row["scale_after"], !then ? 1.0 : scaler == "restored" ? std::ldexp(1, 16 - begin) : 65536.0);
    EXPECT_EQ(row["last_scale"], !then                  ? 1.0
                                 : scaler == "restored" ? std::ldexp(1, 16 - begin)
                                                        : std::ldexp(1, 16 - skipped));
    EXPECT_NEAR(real(row["loss_before"]) / loss(taken), 1, half ? 0.02 : 1e-5);
    EXPECT_NEAR(real(row["loss_after"]) / loss(taken), 1, half || then ? 0.02 : 1e-5);
    EXPECT_NEAR(real(row["last_loss"]) / loss(taken + steps - skipped), 1, half || then ? 0.1 : 1e-5);
    EXPECT_NEAR(real(row["uninterrupted"]) / loss(taken + steps), 1, half ? 0.1 : 1e-5);
    EXPECT_EQ(row["same_bits"], row["from"] == row["to"] && scaler != "forgotten" ? "yes" : "no");
  }
  EXPECT_EQ(rows(report, "resuming_course").size(), 5u * 2 * steps);
}

TEST(GradScaler, what_cannot_be_seen_is_skipped) {
  const Json wide = report_of("grad_scaler", {"max_norm=1"});
  for (const char* id :
       {"clip-before-is-wrong", "clip-before-stands-still", "clip-after-is-right", "clip-after-learns"})
    EXPECT_EQ(verdict(wide, id), "skipped") << id;
  EXPECT_EQ(verdict(report_of("grad_scaler", {"steps=200"}), "clip-after-learns"), "skipped");
  EXPECT_EQ(verdict(report_of("grad_scaler", {"micro_batches=1"}), "accumulate-unscale-each-is-wrong"), "skipped");
  const Json gentle = report_of("grad_scaler", {"largest=0.5"});
  for (const char* id : {"resume-forgotten", "resume-new"}) EXPECT_EQ(verdict(gentle, id), "skipped") << id;
  EXPECT_EQ(verdict(gentle, "resume-restored"), "pass");
  EXPECT_EQ(verdict(report_of("grad_scaler", {"largest=64"}), "resume-forgotten"), "skipped") << "64 * 1024 is 65536";
  const Json one = report_of("grad_scaler", {"steps=1"});
  for (const char* id : {"resume-restored", "resume-forgotten", "resume-falls-on"})
    EXPECT_EQ(verdict(one, id), "skipped") << id << ": the scale has not come down";
  EXPECT_EQ(verdict(report_of("grad_scaler", {"steps=900"}), "resume-falls-on"), "skipped")
      << "nothing is left to learn";
  EXPECT_EQ(verdict(report_of("grad_scaler", {"learning_rate=1e-6", "largest=0.001"}), "resume-loss"), "pass")
      << "weights that round to zero in FP16";
  EXPECT_EQ(refusal_of("grad_scaler", {"micro_batches=3"}),
            "micro_batches has 3, which does not divide 16; accepted: 1, 2, 4, 8, 16");
  for (const char* setting : {"steps=0", "learning_rate=2", "scales=40", "largest=1e9", "max_norm=0"})
    EXPECT_NE(refusal_of("grad_scaler", {setting}), "accepted") << setting;
}

}  // namespace grad_scaler_test
}  // namespace halfulp::grad_scaler
