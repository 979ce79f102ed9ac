// The science of `underflow`, computed a second time in doubles; the samples, and the user's own file.
#include "underflow_run.hpp"

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/experiments/range_class.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace underflow_test {

using namespace halfulp;
using namespace halfulp::tests;

/// x to nearest even with p bits and a smallest exponent, in doubles: the rounding unit is added and taken away.
double quantized(double x, int precision, int emin) {
  if (x == 0) return 0;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(x), emin) - precision + 1);
  return std::nearbyint(x / unit) * unit;
}

TEST(Elementary, AgreesWithTheLibraryToTwoUlps) {
  for (int i = 0; i < 20'000; ++i) {
    const double u = uniform_sample(7, 1, static_cast<std::uint64_t>(i)), x = std::exp((u - 0.5) * 200);
    EXPECT_NEAR(deterministic_log(x), std::log(x), 2 * 0x1p-52 * std::max(1.0, std::fabs(std::log(x)))) << x;
    const double e = (u - 0.5) * 600;
    EXPECT_NEAR(deterministic_exp2(e) / std::exp2(e), 1, 3 * 0x1p-52) << e;
  }
  EXPECT_EQ(deterministic_log(1), 0);
  for (int e = -1022; e < 1023; ++e) EXPECT_EQ(deterministic_exp2(e), std::ldexp(1.0, e));
}

TEST(Distributions, ClosedFormsAtKnownPoints) {
  const auto at = [](Shape shape, double bound, int degrees = 2) {
    return Distribution{shape, 0, 2, degrees, -10, 10}.probability_below(bound);
  };
  EXPECT_NEAR(at(Shape::normal, 1), 0.6826894921370859, 1e-15);
  EXPECT_NEAR(at(Shape::log_normal, 1), 0.5, 1e-15);
  EXPECT_NEAR(at(Shape::log_normal, 4), 0.8413447460685429, 1e-15);  // one sigma of two binades above
  EXPECT_NEAR(at(Shape::laplace, 1), 0.6321205588285577, 1e-15);
  EXPECT_NEAR(at(Shape::student_t, 1, 1), 0.5, 1e-15);
  EXPECT_NEAR(at(Shape::student_t, 1, 2), 0.5773502691896258, 1e-15);
  EXPECT_NEAR(at(Shape::student_t, 1, 3), 0.6089977810442293, 1e-14);
  EXPECT_NEAR(at(Shape::student_t, 2.228138852, 10), 0.95, 1e-9);
  EXPECT_EQ(at(Shape::uniform, 0.25), 0.25);
  EXPECT_EQ(at(Shape::log_uniform, 0x1p-5), 0.25);
  for (const Shape shape : {Shape::normal, Shape::uniform, Shape::log_uniform}) EXPECT_EQ(at(shape, 0), 0);
  EXPECT_EQ(at(Shape::uniform, 3), 1);
}

TEST(Distributions, SamplesFollowTheClosedForm) {
  constexpr int n = 20'000;
  for (std::size_t s = 0; s < shapes.size(); ++s)
    for (const int degrees : {1, 2, 5}) {
      const Distribution d{static_cast<Shape>(s), -3, 2, degrees, -8, 4};
      int negative = 0;
      std::array<int, 5> below{};
      const std::array<double, 5> bounds{0.01, 0.05, 0.1, 0.2, 0.7};
      for (int i = 0; i < n; ++i) {
        const double x = d.sample(3, static_cast<std::uint64_t>(i));
        negative += x < 0;
        for (std::size_t b = 0; b < bounds.size(); ++b) below[b] += std::fabs(x) <= bounds[b];
      }
      EXPECT_NEAR(negative, n / 2, 5 * std::sqrt(n / 4.0));
      for (std::size_t b = 0; b < bounds.size(); ++b) {
        const double p = d.probability_below(bounds[b]);
        EXPECT_NEAR(below[b], n * p, 5 * std::sqrt(n * p * (1 - p)) + 1e-9) << shapes[s].name << " " << bounds[b];
      }
    }
}

TEST(RangeClass, DefinitionAgreesWithTheConversionAroundEveryThreshold) {
  for (const NamedFormat& named : catalogue()) {
    const FloatFormat& f = named.format;
    if (!f.has_zero || f == fp64) continue;
    const NearestEvenLimits limits(f);
    for (const double center : {limits.largest_zero(), limits.below_normal, limits.overflow, f.value(f.max_finite()),
                                f.value(f.min_normal())})
      for (const double x : {std::nextafter(center, 0), center, std::nextafter(center, HUGE_VAL), -center,
                             center * 1.01, center * 0.99}) {
        const Rounded r = encode(f, {}, x);
        const RangeClass expected = r.flags & flag::overflow                               ? RangeClass::overflow
                                    : f.value(r.code) == 0                                 ? RangeClass::zero
                                    : std::fabs(f.value(r.code)) < f.value(f.min_normal()) ? RangeClass::subnormal
                                                                                           : RangeClass::normal;
        EXPECT_EQ(limits.classify(x), expected) << named.name << " " << x;
        EXPECT_EQ(range_class_of(f, r.code, [&] { return r.flags; }), expected) << named.name << " " << x;
      }
  }
}

TEST(Underflow, CountsAreThoseOfASecondComputation) {
  const Json report = run_underflow({"count=5000", "seed=11", "distributions=log-normal", "scale_from=-3",
                                     "scale_to=20", "lr=0.01", "formats=fp16,e5m2"});
  EXPECT_EQ(report["status"], "pass");
  struct SweepCase {
    std::string name;
    int precision, emin;
    double beyond;
  };
  for (const auto& [name, precision, emin, beyond] : {SweepCase{"fp16", 11, -14, 65520}, {"e5m2", 3, -14, 61440}})
    for (const int k : {-3, 0, 7, 20}) {
      int zero = 0, subnormal = 0, overflow = 0, update_zero = 0;
      const double lr = quantized(0.01, precision, emin), normal = std::ldexp(1.0, emin);
      for (std::uint64_t i = 0; i < 5000; ++i) {
        const float g = static_cast<float>(Distribution{Shape::log_normal, -17.5, 4}.sample(11, i));
        const double x = std::ldexp(static_cast<double>(g), k), q = std::fabs(quantized(x, precision, emin));
        overflow += std::fabs(x) >= beyond;
        zero += q == 0;
        subnormal += q != 0 && q < normal;
        update_zero += quantized(lr * q, precision, emin) == 0;
      }
      const std::map<std::string, Json> where{{"format", name}, {"k", k}};
      EXPECT_EQ(cell(report, "scale_sweep", where, "gradient_zero").get<double>(), zero / 5000.0) << name << k;
      EXPECT_EQ(cell(report, "scale_sweep", where, "gradient_subnormal").get<double>(), subnormal / 5000.0)
          << name << k;
      EXPECT_EQ(cell(report, "scale_sweep", where, "gradient_overflow").get<double>(), overflow / 5000.0) << name << k;
      EXPECT_EQ(cell(report, "scale_sweep", where, "update_zero").get<double>(), update_zero / 5000.0) << name << k;
      EXPECT_GT(zero + overflow + subnormal, 0);
    }
}

/// Near FP32's own ends many gradients are zero or infinite before any format is asked; under a scale others become so.
TEST(Underflow, SharesAreOfWhatFp32Holds) {
  for (const std::string shape : {"log-normal", "student-t"})
    for (const std::vector<std::string>& more :
         {std::vector<std::string>{"log2_median=-100", "log2_scale=-100", "log2_sigma=16"},
          {"log2_median=-100", "log2_scale=-100", "log2_sigma=16", "scale_from=-60", "scale_to=-40", "scale_step=5"},
          {"log2_median=30", "log2_scale=30", "log2_sigma=16", "scale_from=20", "scale_to=60", "scale_step=5"}}) {
      std::vector<std::string> settings{"formats=fp32,bf16", "distributions=" + shape, "count=100000", "degrees=1",
                                        "roundings=nearest-even"};
      settings.insert(settings.end(), more.begin(), more.end());
      const Json report = run_underflow(settings);
      for (const Json& claim : report["claims"])
        EXPECT_NE(claim["verdict"], "fail") << claim["id"] << claim["measured"] << more.back();
    }
}

TEST(Underflow, ReadsTheUsersFileInItsOwnType) {
  // 100,000 times: 2^-25 (vanishes), just above it (survives), 1, 65520 (overflows), 0, -0, NaN, Infinity.
  const std::vector<double> pattern{0x1p-25, std::nextafter(0x1p-25, 1.0), 1, 65520, 0, -0.0, NAN, HUGE_VAL};
  const auto path = std::filesystem::temp_directory_path() /
                    ("halfulp_underflow_test_" + std::to_string(getpid()) + ".npy");
  {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (12500, 8), }";
    header.resize(117, ' ');
    header += '\n';
    std::ofstream out(path, std::ios::binary);
    out << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
    for (int i = 0; i < 12'500; ++i) out.write(reinterpret_cast<const char*>(pattern.data()), 64);
  }
  const Json report = run_underflow({"input=" + path.string(), "formats=fp16", "scale_to=1"});
  std::filesystem::remove(path);
  EXPECT_EQ(report["status"], "pass");
  for (const auto& [column, expected] :
       std::map<std::string, int>{{"elements", 100'000}, {"nan", 12'500}, {"infinite", 12'500}, {"zero", 25'000}})
    EXPECT_EQ(cell(report, "inputs", {}, column), expected) << column;
  EXPECT_EQ(cell(report, "fates", {{"rounding", "nearest-even"}, {"quantity", "gradient"}}, "zero"), 0.25);
  EXPECT_EQ(cell(report, "fates", {{"rounding", "nearest-even"}, {"quantity", "gradient"}}, "subnormal"), 0.25);
  EXPECT_EQ(cell(report, "fates", {{"rounding", "nearest-even"}, {"quantity", "gradient"}}, "overflow"), 0.25);
  EXPECT_EQ(cell(report, "fates", {{"rounding", "toward-zero"}, {"quantity", "gradient"}}, "zero"), 0.5);
  EXPECT_EQ(cell(report, "fates", {{"rounding", "toward-zero"}, {"quantity", "gradient"}}, "overflow"), 0.0);
  EXPECT_EQ(cell(report, "scale_sweep", {{"k", 1}}, "gradient_zero"), 0.0);
  EXPECT_EQ(cell(report, "best_scale", {}, "best_k"), nullptr);
}

/// An array of `values` as a float16 or float64 file, read by the experiment.
Json run_on_file(const std::string& descr, const std::string& shape, const std::string& data) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("halfulp_underflow_file_" + std::to_string(getpid()) + ".npy");
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  std::ofstream(path, std::ios::binary) << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n' << data;
  struct Removed {
    std::filesystem::path path;
    ~Removed() { std::filesystem::remove(path); }
  } removed{path};
  return run_underflow({"input=" + path.string(), "formats=fp16,bf16", "scale_to=1"});
}

TEST(Underflow, OfNoGradientsThereIsNothingToSay) {
  EXPECT_THROW(run_on_file("<f4", "(0,)", ""), std::invalid_argument);
  EXPECT_THROW(run_on_file("<f4", "(3, 0)", ""), std::invalid_argument);
  const Json report = run_on_file("<f4", "(4,)", std::string(16, '\0'));
  for (const char* column : {"smallest", "largest"}) EXPECT_EQ(cell(report, "inputs", {}, column), nullptr) << column;
  for (const char* column : {"zero", "subnormal", "normal", "overflow", "lost", "relative_error"})
    EXPECT_EQ(cell(report, "fates", {}, column), nullptr) << column;
  for (const char* column : {"gradient_zero", "update_overflow", "relative_error"})
    EXPECT_EQ(cell(report, "scale_sweep", {}, column), nullptr) << column;
  for (const char* column : {"best_k", "from_k", "zero_unscaled", "grad_scaler_k"})
    EXPECT_EQ(cell(report, "best_scale", {}, column), nullptr) << column;
  for (const Json& claim : report["claims"]) {
    const std::string id = claim["id"];
    if (id.starts_with("input-")) { EXPECT_EQ(claim["verdict"], "skipped") << id; }
  }
}

/// fp16 files have lost their smallest gradients before we see them: said where zeros are left out.
TEST(Underflow, ZerosOfHalfPrecisionFilesAreExplained) {
  const auto explained = [](const Json& report) {
    return report.dump().find("vanished when the gradients were rounded to fp16") != std::string::npos;
  };
  EXPECT_TRUE(explained(run_on_file("<f2", "(2,)", std::string("\x00\x00\x00\x3c", 4))));
  EXPECT_FALSE(explained(run_on_file("<f2", "(2,)", std::string("\x00\x3c\x00\x3c", 4))));
  EXPECT_FALSE(explained(run_on_file("<f4", "(2,)", std::string("\x00\x00\x00\x00\x00\x00\x80\x3f", 8))));
}

/// One bound for the seeds of all experiments.
TEST(Underflow, SeedsHaveOneRange) {
  std::set<double> largest;
  for (const Experiment& experiment : experiments())
    for (const Parameter& parameter : experiment.parameters())
      if (parameter.name == "seed") largest.insert(parameter.maximum);
  EXPECT_EQ(largest, std::set<double>{largest_seed});
}

TEST(Underflow, ThreadsDoNotShow) {
  std::array<Json, 2> results;
  for (std::size_t threads = 1; threads <= 2; ++threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    results[threads - 1] = run_underflow({"count=20000", "scale_to=2"})["results"];
  }
  EXPECT_EQ(results[0].dump(), results[1].dump());
}

TEST(Underflow, BadConfigurations) {
  EXPECT_NE(run_refusal({"formats=fp16,e8m0"}).find("e8m0"), std::string::npos);
  EXPECT_NE(run_refusal({"scale_from=3", "scale_to=2"}).find("scale_from"), std::string::npos);
  EXPECT_NE(run_refusal({"log2_low=1", "log2_high=1"}).find("log2_low"), std::string::npos);
  EXPECT_NE(run_refusal({"input=/does/not/exist.npy"}).find("no such file"), std::string::npos);
}

}  // namespace underflow_test
