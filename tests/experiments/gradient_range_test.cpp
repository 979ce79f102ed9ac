// Which loss scales keep every gradient of a sample in a format: by rounding and by limits, against numbers found by
// hand.
#include <halfulp/experiments/loss_scaling/loss_scaling.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace halfulp {
namespace gradient_range_test {

using trainings::GradientSample;
using trainings::Recovery;
using trainings::ScaleRange;

GradientSample sample_of(const std::vector<float>& values) {
  GradientSample sample;
  sample.add(values);
  sample.sort();
  return sample;
}

/// Both ways to find a range.
void expect_range(const std::vector<float>& values, const FloatFormat& format, ScaleRange expected) {
  const GradientSample sample = sample_of(values);
  EXPECT_EQ(sample.range_by_rounding(format), expected)
      << format_name(format) << " " << sample.range_by_rounding(format).from << " "
      << sample.range_by_rounding(format).to;
  EXPECT_EQ(sample.range_by_limits(format), expected)
      << format_name(format) << " " << sample.range_by_limits(format).from << " " << sample.range_by_limits(format).to;
}

TEST(GradientRange, LimitsOfFormatsByHand) {
  // fp16: 2^-25 is a tie that goes to zero; 65520 is one that overflows.
  expect_range({0x1p-30f, 0x1p-10f}, fp16, {6, 25});
  expect_range({0x1.000002p-30f, 65520 * 0x1p-26f}, fp16, {5, 25});
  expect_range({-0x1.8p-30f, -0x1.ffdffep-11f}, fp16, {5, 26});
  // e4m3: the smallest number is 2^-9; 464 is a tie that goes to 448.
  expect_range({0x1p-20f, 464 * 0x1p-20f}, e4m3, {11, 20});
  expect_range({0x1.8p-20f, 464.5f * 0x1p-20f}, e4m3, {10, 19});
  // e5m2: 2^-16, and 61440 overflows.
  expect_range({0x1p-20f, 61440 * 0x1p-20f}, e5m2, {4, 19});
  // bf16 and fp32 take all but the ends of fp32.
  expect_range({0x1p-149f, 0x1p100f}, fp32, {0, 27});
  expect_range({0x1p-149f, 1}, bf16, {16, 127});
  EXPECT_TRUE((ScaleRange{6, 5}).empty());
  EXPECT_FALSE((ScaleRange{5, 5}).empty());
}

TEST(GradientRange, CountsByHand) {
  const GradientSample sample = sample_of({0.0f, -0.0f, 0x1p-30f, -0x1p-20f, 0x1p-14f, 0x1p-24f, 3, INFINITY, NAN});
  EXPECT_EQ(sample.elements(), 9u);
  EXPECT_EQ(sample.zeros(), 2u);
  EXPECT_EQ(sample.not_finite(), 2u);
  EXPECT_EQ(sample.non_zero(), 5u);
  EXPECT_EQ(sample.between(0, 0x1p-24), 1u);
  EXPECT_EQ(sample.between(0x1p-24, 0x1p-14), 2u);
  EXPECT_EQ(sample.between(0x1p-14, HUGE_VAL), 2u);
  EXPECT_EQ(sample.smallest_exponent(), -30);
  EXPECT_EQ(sample.largest_exponent(), 1);
  const std::pair<int, Recovery> by_hand[] = {{0, {1, 2, 0}},  {5, {1, 2, 0}},  {6, {0, 2, 0}},
                                              {15, {0, 1, 1}}, {16, {0, 0, 1}}, {30, {0, 0, 2}}};
  for (const auto& [k, expected] : by_hand)
    for (const Recovery& r : {sample.by_rounding(fp16, k), sample.by_limits(fp16, k)}) {
      EXPECT_EQ(r, expected) << k << ": " << r.lost << " " << r.subnormal << " " << r.overflowed;
    }
  GradientSample both = sample_of({1, 0});
  both.add(sample);
  both.sort();
  EXPECT_EQ(both.elements(), 11u);
  EXPECT_EQ(both.zeros(), 3u);
  EXPECT_EQ(both.non_zero(), 6u);
}

/// Magnitudes around every power of two, so that ties are there at each scale.
TEST(GradientRange, RoundingAndLimitsAgree) {
  std::vector<float> values;
  for (int e = -149; e < 128; ++e)
    for (const float m : {1.0f, 1.0625f, 1.25f, 1.5f, 1.75f, 1.8125f, 1.9375f, 1.99951172f, 1.9999999f})
      values.push_back(std::ldexp(m, e));
  const GradientSample sample = sample_of(values);
  for (const FloatFormat& format : {fp16, bf16, e5m2, e4m3, e4m3fnuz, e2m1, e3m2, p3109k8p4})
    for (int k = -40; k <= 40; ++k)
      EXPECT_EQ(sample.by_rounding(format, k), sample.by_limits(format, k)) << format_name(format) << " " << k;
}

}  // namespace gradient_range_test
}  // namespace halfulp
