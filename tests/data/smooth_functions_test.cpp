// Functions of activations against 50 decimal digits, and at their ends.
#include <halfulp/data/elementary.hpp>

#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <gtest/gtest.h>

namespace smooth_functions_test {

using namespace halfulp;
using Real = boost::multiprecision::cpp_bin_float_50;

/// The largest |f(x) - g(x)| / |g(x)| over `steps` places of [low, high], in units of 2^-53, each divided by slack(x).
template <class F, class G, class Slack>
double worst(F&& f, G&& g, double low, double high, Slack&& slack, int steps = 3000) {
  double most = 0;
  for (int i = 0; i <= steps; ++i) {
    const double x = low + (high - low) * i / steps;
    const Real want = g(Real(x));
    if (want == 0) continue;
    most = std::max(most, abs((Real(f(x)) - want) / want).convert_to<double>() * 0x1p53 / slack(x));
  }
  return most;
}
template <class F, class G>
double worst(F&& f, G&& g, double low, double high) {
  return worst(f, g, low, high, [](double) { return 1.0; });
}

TEST(SmoothFunctions, AreNearTheirDefinitionsInDouble) {
  const auto sigmoid = [](const Real& x) { return Real(1 / (1 + exp(-x))); };
  const auto cdf = [](const Real& x) { return Real(boost::math::erfc(Real(-x / sqrt(Real(2)))) / 2); };
  EXPECT_LT(worst(smooth_exp<double>, [](const Real& x) { return Real(exp(x)); }, -700, 709), 2.5);
  EXPECT_LT(worst(smooth_tanh<double>, [](const Real& x) { return Real(tanh(x)); }, -30, 30), 4);
  EXPECT_LT(worst(smooth_tanh<double>, [](const Real& x) { return Real(tanh(x)); }, -1e-3, 1e-3), 4);
  EXPECT_LT(worst(smooth_sigmoid<double>, sigmoid, -500, 60), 4);
  EXPECT_LT(worst(smooth_normal_cdf<double>, cdf, -9, 9, [](double x) { return 1 + x * x; }, 500), 4);
  EXPECT_LT(worst(smooth_log1p<double>, [](const Real& x) { return Real(log1p(x)); }, -0.999, 1), 6);
  EXPECT_LT(worst(smooth_log1p<double>, [](const Real& x) { return Real(log1p(x)); }, 1e-20, 1e-10), 4);
  EXPECT_LT(worst(smooth_log<double>, [](const Real& x) { return Real(log(x)); }, 2, 1e9), 4);
}

TEST(SmoothFunctions, AreRoundedOnceForFloat) {
  // Half a unit in float's last place, which is 2^29 times 2^-53, and hardly more.
  constexpr double half = 0x1p29 * 1.01;
  const auto in_float = [](float (*f)(float)) {
    return [f](double x) { return static_cast<double>(f(static_cast<float>(x))); };
  };
  const auto of_float = [](auto g) { return [g](const Real& x) { return Real(g(Real(x.convert_to<float>()))); }; };
  EXPECT_LT(worst(in_float(smooth_exp<float>), of_float([](const Real& x) { return Real(exp(x)); }), -80, 80), half);
  EXPECT_LT(worst(in_float(smooth_tanh<float>), of_float([](const Real& x) { return Real(tanh(x)); }), -10, 10), half);
  EXPECT_LT(
      worst(in_float(smooth_sigmoid<float>), of_float([](const Real& x) { return Real(1 / (1 + exp(-x))); }), -80, 30),
      half);
  EXPECT_LT(worst(
                in_float(smooth_normal_cdf<float>),
                of_float([](const Real& x) { return Real(boost::math::erfc(Real(-x / sqrt(Real(2)))) / 2); }), -9, 9,
                [](double) { return 1.0; }, 500),
            half * 1.1);
}

TEST(SmoothFunctions, HaveTheirEnds) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(smooth_exp(0.0), 1);
  EXPECT_EQ(smooth_exp(-inf), 0);
  EXPECT_EQ(smooth_exp(inf), inf);
  EXPECT_EQ(smooth_exp(710.0), inf);
  EXPECT_EQ(smooth_exp(-745.0), 0x1p-1074);
  EXPECT_EQ(smooth_exp(89.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(smooth_tanh(inf), 1);
  EXPECT_EQ(smooth_tanh(-inf), -1);
  EXPECT_EQ(smooth_tanh(0x1p-1060), 0x1p-1060);
  EXPECT_EQ(smooth_sigmoid(inf), 1);
  EXPECT_EQ(smooth_sigmoid(-inf), 0);
  EXPECT_EQ(smooth_sigmoid(0.0), 0.5);
  EXPECT_EQ(smooth_normal_cdf(inf), 1);
  EXPECT_EQ(smooth_normal_cdf(-40.0), 0);
  EXPECT_DOUBLE_EQ(smooth_normal_cdf(0.0), 0.5);
  EXPECT_EQ(smooth_log(0.0), -inf);
  EXPECT_EQ(smooth_log(inf), inf);
  EXPECT_DOUBLE_EQ(smooth_log(0x1p-1074), -1074 * std::log(2.0));
  EXPECT_EQ(smooth_log1p(-1.0), -inf);
  for (const double x : {smooth_exp(nan), smooth_tanh(nan), smooth_sigmoid(nan), smooth_normal_cdf(nan),
                         smooth_log(nan), smooth_log(-1.0), smooth_log1p(nan)})
    EXPECT_NE(x, x);
}

TEST(SmoothFunctions, SineOfLargeAngles) {
  for (int i = -30000; i <= 30000; ++i) {
    const double x = i * 1.0317;
    ASSERT_NEAR(Real(sin(Real(x))).convert_to<double>(), sine({x, 0}), 3e-16) << x;
  }
  EXPECT_EQ(sine({0, 0}), 0);
  EXPECT_EQ(sine({1e-9, 0}), 1e-9);
}

}  // namespace smooth_functions_test
