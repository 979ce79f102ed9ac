// The experiment "position_ids" against brute force written differently, and its cosine against 50 digits.
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/position_ids/position_ids.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace halfulp {
namespace position_ids_test {

using Precise = boost::multiprecision::cpp_bin_float_50;

TEST(Cosine, AgainstFiftyDigits) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const auto words = random_word(3, 0, i);
    const double scale = FloatFormat::power_of_two(static_cast<int>(words % 40) - 20);  // to 2^20
    const double high = static_cast<double>(words >> 11) * 0x1p-53 * scale;
    const double low = high * (static_cast<double>(random_word(3, 1, i) >> 11) * 0x1p-53 - 0.5) * 0x1p-53;
    const Precise exact = cos(Precise(high) + Precise(low));
    worst = std::max(worst, std::fabs(static_cast<double>(Precise(exact - Precise(cosine({high, low}))))));
  }
  EXPECT_LT(worst, 3e-16);
  EXPECT_EQ(cosine({0, 0}), 1);
}

TEST(PositionFactors, AgainstFiftyDigits) {
  Trace trace;
  const auto rope = positions::rope_frequencies(64, 10000, trace);
  ASSERT_EQ(rope.exact.size(), 32u);
  for (int i = 0; i < 32; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Precise exact = exp(-Precise(2 * i) / 64 * log(Precise(10000)));
    EXPECT_LT(abs((Precise(rope.exact[at].high) + Precise(rope.exact[at].low)) / exact - 1), Precise(1e-30)) << i;
    EXPECT_LT(std::fabs(fp32.value(rope.fp32[at]) / rope.exact[at].high - 1), 2.0 * 0x1p-24);
  }
  const auto alibi = positions::alibi_slopes(16);  // every second slope is a power of two
  for (int h = 2; h <= 16; h += 2)
    EXPECT_EQ(alibi.exact[static_cast<std::size_t>(h - 1)].high, FloatFormat::power_of_two(-h / 2));
}

/// Claims that say something only of long contexts, many dimensions, or formats whose ids are rounded.
const std::set<std::string> of_large_models{"ids-angle-error-is-half-a-spacing",
                                            "ids-beyond-the-range",
                                            "ids-mean-cosine-error",
                                            "ids-bias-error",
                                            "cosine-alone-costs-half-a-unit",
                                            "wrapped-angles-do-not-grow",
                                            "scores-by-chance",
                                            "rounded-cosines-keep-scores"};

/// The report of a run in which every claim passes but those of `skipped`; those of large models may be skipped.
Json run(std::vector<std::string> assignments, const std::set<std::string>& skipped = {}) {
  const Experiment& experiment = find_experiment("position_ids");
  Config config(experiment.parameters());
  for (const std::string& a : assignments) config.set(a);
  Report report("position_ids", "test", config);
  Trace trace;
  Run r{report, trace, [](double) {}};
  experiment.run(config, r);
  for (const Claim& c : report.claims()) {
    if (c.verdict == Verdict::skipped && of_large_models.count(c.id)) continue;
    EXPECT_EQ(c.verdict, skipped.count(c.id) ? Verdict::skipped : Verdict::pass)
        << c.id << " " << c.measured << " " << c.reason;
  }
  return report.to_json();
}

/// Sets and maps of values instead of runs of codes.
TEST(PositionIds, CollisionsByBruteForce) {
  const Json report = run({"formats=fp16,bf16,e4m3,e5m2,e3m2,e2m3,e2m1,p3109k8p3,e5m7,e4m3ieee,fp32",
                           "lengths=7,300,3000", "rope_dim=4", "alibi_heads=2"});
  int checked = 0;
  for (const Json& row : report["results"]["collisions"]["rows"]) {
    const FloatFormat f = parse_format(row[0].get<std::string>());
    Rounding r;
    if (row[1] == "toward-zero") r.mode = RoundingMode::toward_zero;
    std::map<std::uint64_t, std::int64_t> tokens;
    Json clash;
    for (std::int64_t n = 0; n < row[2].get<std::int64_t>(); ++n) {
      const std::int64_t now = ++tokens[encode(f, r, static_cast<double>(n)).code];
      if (now == 2 && clash.is_null()) clash = n;
    }
    std::int64_t largest = 0;
    for (const auto& [code, size] : tokens) largest = std::max(largest, size);
    EXPECT_EQ(row[3], tokens.size()) << row;
    EXPECT_EQ(row[4], clash) << row;
    EXPECT_EQ(row[5], largest) << row;
    ++checked;
  }
  EXPECT_EQ(checked, 11 * 2 * 3);
}

/// Without fraction bits every position from 4 on is in the ties' hands, and which way they go depends on the bias.
TEST(PositionIds, FormatsWithoutFractionBits) {
  for (const char* name : {"e3m0fnuz", "e3m0b3fnuz", "e4m0fn", "e4m0b6fn", "e5m0finite"}) {
    const Json report = run(
        {std::string("formats=") + name, "lengths=3,4,5,6,7,8,12,13,24,25,100,300", "rope_dim=2", "alibi_heads=1"},
        {"first-clash-is-2-to-the-p-plus-1"});
    for (const Json& claim : report["claims"])
      if (claim["id"] == "distinct-in-closed-form") { EXPECT_EQ(claim["expected"].size(), 12u) << name; }
  }
}

/// Ids beyond the largest value become that value, which is one phase.
TEST(PositionIds, NoRandomPhasesWhereIdsAreClamped) {
  for (const char* name : {"e2m3", "e4m0finite"}) {
    const Json report = run({std::string("formats=") + name, "lengths=2048", "rope_dim=32"},
                            {"first-clash-is-2-to-the-p-plus-1"});
    for (const Json& claim : report["claims"])
      if (claim["id"] == "ids-mean-cosine-error") { EXPECT_EQ(claim["verdict"], "skipped") << name; }
  }
}

TEST(PositionIds, NothingIsClaimedOfFp32ThroughFp32) {
  run({"formats=fp32", "lengths=64", "rope_dim=2", "alibi_heads=1"},
      {"through-fp32-changes-nothing", "first-clash-is-2-to-the-p-plus-1"});
}

/// Every token is in exactly one group, and the groups of a binade hold spacing tokens on average.
TEST(PositionIds, GroupsCoverTheContext) {
  const Json report = run({"formats=fp16,bf16,e5m2", "lengths=131072", "rope_dim=2", "alibi_heads=1"});
  std::map<std::string, std::int64_t> next;
  for (const Json& row : report["results"]["groups"]["rows"]) {
    const std::string name = row[0];
    EXPECT_EQ(row[1], next[name]) << row;
    next[name] = row[2].get<std::int64_t>() + 1;
    EXPECT_LE(row[6], row[8]);
    EXPECT_LE(row[8], row[7]);
    if (row[4].is_null() || row[5].get<int>() <= 4) continue;
    EXPECT_NEAR(row[8].get<double>(), row[4].get<double>(), row[4].get<double>() / 50) << row;
  }
  for (const auto& [name, end] : next) EXPECT_EQ(end, 131072) << name;
}

/// RoPE rows recomputed in 50 digits and doubles: dim 4 has frequencies 1 and 1/100.
TEST(PositionIds, RopeInFiftyDigits) {
  const Json report = run({"formats=bf16", "lengths=600", "rope_dim=4", "alibi_heads=8"});
  double angle = 0, cosine = 0, bias = 0;
  for (int n = 0; n < 600; ++n) {
    const double id = bf16.value(encode(bf16, {}, n).code);
    for (const int hundred : {1, 100}) {
      const double theta = static_cast<double>(1.0f / static_cast<float>(hundred));
      const auto product = static_cast<float>(id * theta);
      const Precise exact = Precise(n) / hundred;
      angle = std::max(angle, static_cast<double>(abs(Precise(product) - exact)));
      const auto c = static_cast<float>(static_cast<double>(cos(Precise(product))));
      cosine = std::max(cosine, static_cast<double>(abs(Precise(c) - cos(exact))));
    }
    for (int h = 1; h <= 8; ++h) bias = std::max(bias, std::fabs(id - n) * FloatFormat::power_of_two(-h));
  }
  int seen = 0;
  for (const Json& row : report["results"]["rope"]["rows"]) {
    if (row[1] != "ids") continue;
    EXPECT_NEAR(row[3].get<double>(), angle, 1e-12);
    EXPECT_NEAR(row[4].get<double>(), cosine, 1e-12);
    ++seen;
  }
  for (const Json& row : report["results"]["alibi"]["rows"]) {
    if (row[1] != "ids" && row[1] != "fp32") continue;
    EXPECT_EQ(row[3].get<double>(), row[1] == "ids" ? bias : 0.0);
    ++seen;
  }
  EXPECT_EQ(seen, 3);
}

/// ViT's positions by sets.
TEST(PositionIds, Images) {
  const Json report = run(
      {"formats=bf16,fp16,e4m3", "lengths=64", "rope_dim=2", "alibi_heads=1", "pixels=224,384,33", "patch=16"});
  int checked = 0;
  for (const Json& row : report["results"]["images"]["rows"]) {
    const int side = row[0].get<int>() / 16, tokens = side * side + 1;
    const FloatFormat f = parse_format(row[1].get<std::string>());
    std::map<std::uint64_t, int> ids;
    for (int n = 0; n < tokens; ++n) ++ids[encode(f, {}, n).code];
    int sharing = 0;
    for (const auto& [id, size] : ids) sharing += size > 1 ? size : 0;
    EXPECT_EQ(row[2], tokens);
    EXPECT_EQ(row[3], ids.size()) << row;
    EXPECT_EQ(row[4], sharing) << row;
    ++checked;
  }
  EXPECT_EQ(checked, 9);
}

/// Scores do not know where a pair stands: in FP32 nearly, with bf16 ids not at all, with rounded cosines to bf16's
/// digits.
TEST(PositionIds, ScoresDependOnTheDistance) {
  const Json report = run({"formats=bf16,e4m3", "lengths=4096,65536", "rope_dim=64", "alibi_heads=1"});
  std::map<std::string, Json> rows;
  for (const Json& row : report["results"]["scores"]["rows"])
    if (row[2] == 65536) rows[row[0].get<std::string>() + " " + row[1].get<std::string>()] = row;
  ASSERT_EQ(rows.size(), 1u + 2 * 6);
  EXPECT_LT(rows["fp32 fp32"][3], 0.01);
  EXPECT_LT(rows["bf16 cosine"][3], 0.01);
  EXPECT_LT(rows["bf16 wrapped"][3], 0.05);
  EXPECT_GT(rows["bf16 ids"][3], 0.3);
  EXPECT_GT(rows["bf16 ids"][5], 0.05) << "moved by one token, the same pair has another score";
  EXPECT_GT(rows["bf16 value"][3], 0.3);
  EXPECT_EQ(rows["e4m3 ids"][6], 1.0) << "ids beyond 448 are no numbers";
  EXPECT_TRUE(rows["e4m3 ids"][3].is_null());
}

TEST(PositionIds, BadConfigurations) {
  EXPECT_THROW(run({"formats=e8m0"}), std::invalid_argument);
  EXPECT_THROW(run({"roundings=stochastic"}), std::invalid_argument);
}

}  // namespace position_ids_test
}  // namespace halfulp
