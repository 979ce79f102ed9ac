// Calibration against brute force and hand-made cases; integer products against exact integers; the split of
// LLM.int8().
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/experiments/quantization/integers.hpp>
#include <halfulp/experiments/quantization/quantization.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace calibration_test {

using namespace halfulp;
using namespace halfulp::quantization;

std::vector<float> draws(std::size_t count, std::uint64_t seed, bool rectified = false) {
  Distribution d;
  d.shape = Shape::laplace;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(d.sample(seed, i));
  if (rectified)
    for (float& v : values) v = std::max(v, 0.0f);
  return values;
}

TEST(Percentile, IsTheSmallestMagnitudeThatEnoughDoNotExceed) {
  const std::vector<float> values{-4, 1, -2, 3, 5, 0, 0, 0, 0, -6};
  EXPECT_EQ(percentile_amax(values, 100), 6);
  EXPECT_EQ(percentile_amax(values, 90), 5);
  EXPECT_EQ(percentile_amax(values, 89.9), 5);
  EXPECT_EQ(percentile_amax(values, 80), 4);
  EXPECT_EQ(percentile_amax(values, 50), 1);
  const std::vector<float> many = draws(1013, 1);
  std::vector<float> sorted;
  for (const float v : many) sorted.push_back(std::fabs(v));
  std::sort(sorted.begin(), sorted.end());
  for (const double percent : {50.0, 90.0, 99.0, 99.9, 99.999, 100.0}) {
    const float amax = percentile_amax(many, percent);
    const auto within = static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), amax) - sorted.begin());
    const auto below = static_cast<double>(std::lower_bound(sorted.begin(), sorted.end(), amax) - sorted.begin());
    EXPECT_GE(within, percent / 100 * 1013) << percent;
    EXPECT_LT(below, percent / 100 * 1013) << percent;
  }
  EXPECT_EQ(percentile_amax({}, 99), 0);
}

TEST(CalibrationHistogram, EdgesAndCountsAgree) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<float> values = draws(5000, seed, seed == 2);
    const Histogram h(values);
    EXPECT_EQ(std::accumulate(h.counts().begin(), h.counts().end(), std::uint64_t{0}), values.size());
    std::uint64_t counted = 0;
    for (std::size_t b = 1; b <= Histogram::bins; ++b) {
      counted += h.counts()[b - 1];
      EXPECT_EQ(static_cast<std::uint64_t>(
                    std::count_if(values.begin(), values.end(), [&](float v) { return std::fabs(v) <= h.edge(b); })),
                counted)
          << b;
    }
    EXPECT_EQ(h.edge(Histogram::bins), largest_magnitude(values));
  }
}

/// Migacz's procedure as it is told, in long double: bins, their merging and spreading, and the divergence of two
/// normalised distributions.
std::size_t entropy_by_the_book(const Histogram& h, std::size_t levels) {
  std::vector<long double> counts(h.counts().begin(), h.counts().end());
  counts[0] = counts[1];
  std::size_t best = 0;
  long double least = std::numeric_limits<long double>::infinity();
  for (std::size_t n = 128; n <= counts.size(); ++n) {
    std::vector<long double> p(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(n)), q(n, 0);
    p.back() += std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(n), counts.end(), 0.0L);
    for (std::size_t level = 0; level < levels; ++level) {
      long double sum = 0;
      std::vector<std::size_t> members;
      for (std::size_t b = 0; b < n; ++b) {
        const long double low = static_cast<long double>(n) * static_cast<long double>(level) /
                                static_cast<long double>(levels);
        const long double high = static_cast<long double>(n) * static_cast<long double>(level + 1) /
                                 static_cast<long double>(levels);
        if (static_cast<long double>(b) < low || static_cast<long double>(b) >= high) continue;
        sum += counts[b];
        if (counts[b] > 0) members.push_back(b);
      }
      for (const std::size_t b : members) q[b] = sum / static_cast<long double>(members.size());
    }
    const long double of_p = std::accumulate(p.begin(), p.end(), 0.0L),
                      of_q = std::accumulate(q.begin(), q.end(), 0.0L);
    long double divergence = 0;
    for (std::size_t b = 0; b < n; ++b) {
      if (p[b] == 0) continue;
      divergence += q[b] == 0 ? std::numeric_limits<long double>::infinity()
                              : p[b] / of_p * std::log(p[b] / of_p / (q[b] / of_q));
    }
    if (divergence <= least) least = divergence, best = n;
  }
  return best;
}

TEST(Entropy, IsWhatTheProcedureSays) {
  for (const std::size_t levels : {128u, 8u, 2u})
    for (const std::uint64_t seed : {1, 2}) {
      const Histogram h(draws(30000, seed, seed == 2));
      EXPECT_EQ(entropy_bins(h, levels), entropy_by_the_book(h, levels)) << levels << " " << seed;
    }
}

TEST(Entropy, CutsAnOutlierAndKeepsAUniformTensor) {
  std::vector<float> values(20000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(uniform_sample(1, 0, i));
  EXPECT_GE(calibrated_amax({Method::entropy}, values, integers(8, false)), 0.99f);
  values.push_back(10);
  EXPECT_LT(calibrated_amax({Method::entropy}, values, integers(8, false)), 1.5f);
}

/// Squared error by the definition: nearest integer, ties to even, clipped.
double squared_error(std::span<const float> values, double amax, int most) {
  double sum = 0;
  for (const float v : values) {
    const double scale = amax / most,
                 q = std::clamp(std::nearbyint(static_cast<double>(v) / scale), -1.0 * most, 1.0 * most);
    sum += (static_cast<double>(v) - q * scale) * (static_cast<double>(v) - q * scale);
  }
  return sum;
}

TEST(MeanSquaredError, NoTriedMagnitudeIsBetter) {
  for (const int bits : {8, 4, 3, 2}) {
    const std::vector<float> values = draws(4000, static_cast<std::uint64_t>(bits));
    const int most = (1 << (bits - 1)) - 1;
    const double largest = static_cast<double>(largest_magnitude(values));
    const auto amax = static_cast<double>(calibrated_amax({Method::mse}, values, integers(bits, false)));
    double least = 1e300;
    for (int percent = 1; percent <= 100; ++percent)
      least = std::min(least, squared_error(values, largest * percent / 100, most));
    EXPECT_NEAR(squared_error(values, amax, most), least, least * 1e-5) << bits;
    const QuantizationLoss loss = loss_of(values, static_cast<float>(amax), integers(bits, false));
    EXPECT_NEAR(loss.squared_error, least, least * 1e-5) << bits;
    EXPECT_EQ(loss.clipped, static_cast<std::uint64_t>(std::count_if(values.begin(), values.end(), [&](float v) {
                return static_cast<double>(std::fabs(v)) > amax;
              })));
    EXPECT_LE(loss.largest_inside, 1.0001);
    EXPECT_GE(loss.largest_inside, 0.9);
  }
}

TEST(CalibratedAmax, NamesSayThePercent) {
  EXPECT_EQ((Calibration{Method::percentile, 99.9999}).name(), "percentile-99.9999");
  EXPECT_EQ((Calibration{Method::percentile, 50}).name(), "percentile-50");
  EXPECT_EQ(Calibration{Method::mse}.name(), "mse");
}

TEST(CalibratedAmax, OfZerosAndOfHalfZeros) {
  const std::vector<float> zeros(100);
  std::vector<float> one(100);
  one[7] = -3;
  for (const auto& method : methods) {
    EXPECT_EQ(calibrated_amax({method.value, 99}, zeros, integers(8, false)), 0) << method.name;
    EXPECT_GT(calibrated_amax({method.value, 60}, one, integers(8, false)), 0)
        << method.name;  // the 60th percentile is 0
  }
  EXPECT_EQ(loss_of(zeros, 0, integers(8, false)).squared_error, 0);
  EXPECT_TRUE(std::isinf(loss_of(zeros, 0, integers(8, false)).sqnr()));
}

TEST(IntegerProduct, SumsIntegersExactly) {
  // 2,000 products of 127 * 127 and one of 1: no float holds the sum.
  const std::size_t k = 2001;
  std::vector<float> x(k, 127), w(k, 127);
  x[2000] = w[2000] = 1;
  const auto array = [&](const std::vector<float>& v) { return quantize_blocks(integers(8, true), {}, v, 1, k); };
  const BlockArray a = array(x);
  ASSERT_EQ(a.step(0).value, 1);
  EXPECT_EQ(integer_product(a, array(w))[0], static_cast<float>(2000 * 127 * 127 + 1));
  // Scales of rows and outputs, negative numbers.
  const std::vector<float> rows{127, -2, 254, -508}, outputs{127, 1, -127, 3};
  const std::vector<float> y = integer_product(quantize_blocks(integers(8, true), {}, rows, 2, 2),
                                               quantize_blocks(integers(8, true), {}, outputs, 2, 2));
  EXPECT_EQ(y,
            (std::vector<float>{127 * 127 - 2, -127 * 127 - 6, 64 * 4 * 127 - 127 * 4, -64 * 4 * 127 - 3 * 127 * 4}));
}

TEST(Split, OfNothingIsInt8AndOfEverythingIsFp16) {
  OutlierSample sample;
  sample.rows = 8, sample.outputs = 5, sample.features = 256, sample.outliers = 2;
  const LinearOperands o = draw(sample, 3);
  const SplitProduct none = split_product(o, 1e9), all = split_product(o, 0);
  EXPECT_EQ(none.outliers, 0u);
  EXPECT_EQ(all.outliers, 256u);
  EXPECT_EQ(all.y, fp16_product(o));
  const std::vector<double> exact = exact_product(o);
  const double int8 = relative_error(int8_product(o, true), exact);
  EXPECT_NEAR(relative_error(none.y, exact), int8, 1e-3);
  const SplitProduct split = split_product(o, 6);
  EXPECT_EQ(split.outliers, 2u);
  EXPECT_LT(relative_error(split.y, exact), int8 / 3);
}

TEST(Split, OutliersAreWhereAMagnitudeReachesTheThreshold) {
  const std::vector<float> x{0, 6, 1, -6.5f, 5.9f, 0, 0, 0};
  EXPECT_EQ(outlier_columns(x, 4, 6), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(outlier_columns(x, 4, 5.5), (std::vector<std::size_t>{0, 1, 3}));
  EXPECT_TRUE(outlier_columns(x, 4, 7).empty());
}

}  // namespace calibration_test
