// The experiment "conversions": stretches and counting against every input of small types, converted by rationals.
#include <halfulp/evidence/oracle/operations.hpp>

#include <halfulp/experiments/conversions/conversions.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace halfulp {
namespace conversions_test {

using namespace conversions;

constexpr std::array modes{RoundingMode::nearest_even, RoundingMode::nearest_away,    RoundingMode::nearest_to_zero,
                           RoundingMode::toward_zero,  RoundingMode::toward_positive, RoundingMode::toward_negative,
                           RoundingMode::to_odd};

std::uint64_t by_rationals(const NumberType& from, const FloatFormat& to, const Rounding& rounding,
                           std::uint64_t code) {
  if (const auto* f = std::get_if<FloatFormat>(&from))
    return oracle::convert<oracle::cpp_int>(*f, to, rounding, code).code;
  const auto& integer = std::get<IntegerType>(from);
  const bool negative = integer.is_signed && (code >> (integer.bits - 1)) != 0;
  return oracle::from_integer(
             negative ? oracle::cpp_int(code) - (oracle::cpp_int(1) << integer.bits) : oracle::cpp_int(code), to,
             rounding)
      .code;
}

double magnitude_of(const NumberType& type, std::uint64_t code) {
  if (const auto* f = std::get_if<FloatFormat>(&type)) return std::fabs(f->value(code));
  const auto& integer = std::get<IntegerType>(type);
  const bool negative = integer.is_signed && (code >> (integer.bits - 1)) != 0;
  return negative ? std::ldexp(1.0, integer.bits) - static_cast<double>(code) : static_cast<double>(code);
}

/// Code words of every finite input whose two results differ; NaN is as good as NaN, +0 as -0.
std::set<std::uint64_t> wrong_inputs(const ConversionChain& chain, const ChainRounding& rounding) {
  std::set<std::uint64_t> wrong;
  const auto* f = std::get_if<FloatFormat>(&chain.from);
  for (std::uint64_t code = 0; code < std::uint64_t{1} << storage_bits(chain.from); ++code) {
    if (f && !f->is_finite(code)) continue;
    if (!has_signs(chain) && f && f->sign(code)) continue;
    const std::uint64_t once = by_rationals(chain.from, chain.to, rounding.last, code);
    NumberType at = chain.from;
    std::uint64_t x = code;
    for (const FloatFormat& via : chain.via) x = by_rationals(at, via, rounding.via, x), at = via;
    const std::uint64_t twice = by_rationals(at, chain.to, rounding.last, x);
    const double a = chain.to.value(once), b = chain.to.value(twice);
    if (a != b && !(std::isnan(a) && std::isnan(b))) wrong.insert(code);
  }
  return wrong;
}

void expect_as_one_by_one(const ConversionChain& chain, const ChainRounding& rounding, bool counted) {
  const std::string where = chain.text + " " + std::string(name_of(rounding.via.mode)) + " then " +
                            std::string(name_of(rounding.last.mode));
  const auto wrong = wrong_inputs(chain, rounding);
  const ChainErrors m = measure(chain, rounding, Look::some);
  std::set<std::uint64_t> found;
  for (const bool negative : {false, true}) {
    const MagnitudeLine line(chain.from, negative);
    for (const DifferingRange& s : m.of_sign[negative].ranges)
      for (uint128 x = s.first; x < s.end; ++x) found.insert(line.code(x));
  }
  EXPECT_EQ(found, wrong) << where;
  EXPECT_EQ(m.wrong, wrong.size()) << where;
  std::uint64_t normal = 0, subnormal = 0;  // by direct results; greater ones that saturate are neither
  for (const std::uint64_t code : wrong) {
    const double once = std::fabs(chain.to.value(by_rationals(chain.from, chain.to, rounding.last, code))),
                 input = magnitude_of(chain.from, code);
    if (once < chain.to.value(chain.to.min_normal())) ++subnormal;
    else if (std::isfinite(once) && input < FloatFormat::power_of_two(chain.to.emax() + 1)) ++normal;
  }
  EXPECT_EQ(m.wrong_normal, normal) << where;
  EXPECT_EQ(m.wrong_subnormal, subnormal) << where;
  EXPECT_EQ(m.seen.contradicting + m.seen.ends_contradicting, 0u) << where;
  if (m.smallest) { EXPECT_TRUE(wrong.count(m.smallest->input)) << where; }
  const auto expected = expected_wrong(chain, rounding);
  if (counted) { EXPECT_TRUE(expected.has_value()) << where; }
  if (expected) { EXPECT_EQ(*expected, wrong.size()) << where; }
}

TEST(Stretches, HoldExactlyTheInputsThatDiffer) {
  // The way wide enough, coarser, narrower in range, without infinity, saturating, with its own zero, and two of them.
  for (const char* text : {"e5m7>e5m5>e5m2", "e5m7>e4m3>e5m2", "e8m5>fp16>e4m3", "e8m5>e4m3fnuz>e3m2", "e5m7>e2m1>e4m3",
                           "e5m7>e4m6>e4m3>e2m1", "e6m7>e5m6>p3109k8p3", "e8m5>e8m0>e4m3", "e8m5>e8m4>e8m0",
                           "e5m7>e5m3>e4m3ieee", "e4m8fn>e4m5>e4m3", "e5m8>bf16>e5m6", "e8m0>fp16>e4m3"})
    for (const RoundingMode mode : modes) expect_as_one_by_one(parse_chain(text), same(mode), false);
}

TEST(Counting, IsWhatOneByOneFinds) {
  for (const char* text : {"e5m7>e5m5>e5m2", "e5m9>e5m6>e5m3", "e8m6>e8m4>e8m2", "e6m7>e5m4>e4m2", "e6m7>e5m3>e4m2",
                           "e8m6>e8m4>e4m3", "e6m7>e5m4>e2m1", "e6m7>e5m4>e3m2"}) {
    for (const RoundingMode mode : modes) expect_as_one_by_one(parse_chain(text), same(mode), true);
    for (const RoundingMode mode : modes) {
      expect_as_one_by_one(parse_chain(text), {{mode}, {RoundingMode::nearest_even}}, true);
      expect_as_one_by_one(parse_chain(text), {{mode}, {RoundingMode::nearest_to_zero}}, true);
    }
    ChainRounding saturating = same(RoundingMode::nearest_even);
    saturating.via.overflow = saturating.last.overflow = Overflow::saturate;
    const ConversionChain chain = parse_chain(text);
    EXPECT_EQ(expected_wrong(chain, saturating), wrong_inputs(chain, saturating).size()) << text;
  }
  for (const IntegerType integer : {IntegerType{14, true}, IntegerType{13, false}})
    for (const RoundingMode mode : modes)
      expect_as_one_by_one({"integers", integer, {FloatFormat{6, 5, 31}}, FloatFormat{5, 2, 15}}, same(mode), true);
}

TEST(Counting, SaysWhereItDoesNotApply) {
  for (const char* text :
       {"fp16>e4m3>e5m2", "fp32>fp16>bf16", "fp64>fp32>bf16>e4m3", "fp32>bf16>e8m0", "e4m3>e4m2ieee>e3m1"})
    EXPECT_FALSE(expected_wrong(parse_chain(text), same(RoundingMode::nearest_even)).has_value()) << text;
}

TEST(Stretches, CountTwoToTheSixtyFour) {
  // By hand: normal binades of fp16 have 2^10 middles with 2^28 doubles each; binade -14 - k only 2^(10 - k), the last
  // (k = 11) one.
  std::uint64_t middles = 30 * 1024;
  for (int k = 1; k <= 10; ++k) middles += std::uint64_t{1} << (10 - k);
  EXPECT_EQ(measure(parse_chain("fp64>fp32>fp16"), same(RoundingMode::nearest_even)).wrong, 2 * (middles + 1) << 28);
  // Integers: bit lengths 25 to 63 drop d = 1 to 39 bits, 128 middles each.
  std::uint64_t integers = 0;
  for (int d = 1; d <= 39; ++d) integers += std::uint64_t{128} << (d - 1);
  EXPECT_EQ(measure(parse_chain("i64>fp32>bf16"), same(RoundingMode::nearest_even)).wrong, 2 * integers);
}

TEST(Inputs, AreCountedOnce) {
  const auto inputs = [](const char* text) { return inputs_of(parse_chain(text)); };
  const uint128 one = 1;
  EXPECT_TRUE(inputs("i32>fp32>bf16") == one << 32);
  EXPECT_TRUE(inputs("u32>fp32>bf16") == one << 32);
  EXPECT_TRUE(inputs("i64>fp32>bf16") == one << 64);
  EXPECT_TRUE(inputs("u64>fp32>bf16") == one << 64);
  EXPECT_TRUE(inputs("fp32>bf16>e4m3") == (one << 32) - (one << 24));  // two zeros; no infinities, no NaN
  EXPECT_TRUE(inputs("fp64>fp32>fp16") == (one << 53) * 2047);
  EXPECT_TRUE(inputs("e4m3fnuz>e3m2>e2m1") == 255);  // one zero, one NaN
}

TEST(Inputs, AreExactInReports) {
  EXPECT_EQ(count(~std::uint64_t{0}).dump(), "18446744073709551615");
  EXPECT_EQ(count((uint128{1} << 53) * 2047).dump(), "18437736874454810624");
  EXPECT_EQ(count(uint128{1} << 64), Json(0x1p64));
  EXPECT_EQ(full_text(fp64, std::bit_cast<std::uint64_t>(1 + 0x1p-52)), "1.0000000000000002");
  EXPECT_EQ(full_text(parse_number_type("i32"), 0xffffffff), "-1");
}

TEST(Chains, AreReadOrRefused) {
  EXPECT_EQ(parse_chains(" fp32 > bf16>e4m3 ,i32>fp32>bf16").size(), 2u);
  for (const char* bad :
       {"", "fp32", "fp32>bf16", "fp32>i32>bf16", "fp32>bf16>i32", "fp32>bf16>nothing", "fp64>fp32>fp32",
        "fp32>bf16>e4m3,fp32>bf16>e4m3", "fp32>bf16>e4m3,", "fp32>fp16>fp16>fp16>fp16>fp16>fp16"})
    EXPECT_THROW(parse_chains(bad), std::invalid_argument) << bad;
}

Json run(std::vector<std::string> assignments) {
  const Experiment& experiment = find_experiment("conversions");
  Config config(experiment.parameters());
  for (const std::string& a : assignments) config.set(a);
  Report report("conversions", "test", config);
  Trace trace;
  Run r{report, trace, [](double) {}};
  experiment.run(config, r);
  for (const Claim& c : report.claims())
    EXPECT_TRUE(c.verdict == Verdict::pass || c.verdict == Verdict::skipped)
        << c.id << " " << c.measured << " " << c.expected;
  return report.to_json();
}

TEST(Conversions, OddConfigurations) {
  const std::string few = "operations=e3m2>bf16";
  run(
      {"chains=e4m3>e3m2>e2m1,fp32>fp16>bf16,bf16>e8m0>e8m0,u64>fp32>fp16,u32>e8m0>e8m0,fp32>e9m3>e9m3,i64>e2m1>fp16,"
       "fp64>e11m40>tf32,fp16>fp16>fp16,"
       "fp32>p3109k8p4>p3109k8p3,e4m3fnuz>e5m2fnuz>e3m2,fp32>e2m2>e2m1,fp32>e4m3>e2m1,fp64>e8m0>fp16",
       few, "samples=1024", "roundings=nearest-even,toward-positive,toward-negative,to-odd,nearest-to-zero"});
  run({"chains=e8m0>e8m0>e8m0", few, "samples=1024", "roundings=toward-negative"});
  run({"chains=fp16>bf16>e4m3", "operations=e2m1>e4m3,e5m2>e5m2", "samples=1024"});
  // Rounded to odd on the way nothing differs where the table says that there are bits enough; with one bit more there
  // is much.
  bool one_bit = false;
  const Json odd = run({"chains=fp32>bf16>e4m3,fp32>e5m3>e5m2,fp64>fp32>bf16>e4m3,fp32>e4m5>e5m2", few,
                        "samples=1024"});  // outlives the loop
  for (const Json& row : odd["results"]["modes"]["rows"])
    if (row[1] == "to-odd") {
      if (row[3] == true) { EXPECT_EQ(row[4], 0) << row; }
      one_bit = one_bit || (row[3] == false && row[4] > 0);
    }
  EXPECT_TRUE(one_bit);
  for (const char* bad : {"roundings=stochastic", "operations=fp16", "operations=fp32>fp16", "operations=fp16>fp64",
                          "operations=e8m0>fp32", "operations=", "chains="})
    EXPECT_THROW(run({bad}), std::invalid_argument) << bad;
}

}  // namespace conversions_test
}  // namespace halfulp
