// The skeletons of docs/how-to compile and do what their pages say.
#include "../../docs/how-to/skeletons/backend.cpp"
#include "../../docs/how-to/skeletons/experiment.cpp"
#include "../../docs/how-to/skeletons/format.cpp"
#include "../../docs/how-to/skeletons/profile.cpp"

#include <halfulp/report/schema.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/evidence/comparison.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace skeletons_test {

using namespace halfulp;

TEST(Skeletons, AFormatIsItsFields) {
  EXPECT_EQ(parse_format("e5m3"), my_format);
  EXPECT_EQ(in_my_format({1.0f, 1.0626f, 70000.0f}), (std::vector<float>{1.0f, 1.125f, INFINITY}));
}

TEST(Skeletons, AnExperimentGivesAValidReport) {
  const Experiment experiment = powers_of_ten_experiment();
  RunOptions options;
  options.backends = {&host_float_device()};
  const Json report = run_experiment(experiment, Config(experiment.parameters()), options).to_json();
  EXPECT_TRUE(report_errors(report, {&experiment, 1}).empty());
  EXPECT_EQ(report["claims"][0]["verdict"], "pass");
  EXPECT_EQ(report["claims"][0]["measured"], (Json{{"fp16", 4}, {"bf16", 3}, {"fp32", 10}}));
}

TEST(Skeletons, ADeviceIsCompared) {
  std::vector<std::uint64_t> a, b;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    a.push_back((i * 2654435761u) & 0xffff'ffff);
    b.push_back((i * 40503u * 69069u + 12345u) & 0xffff'ffff);
  }
  for (const Operation operation : {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::sqrt}) {
    const bool unary = operation == Operation::sqrt;
    const Comparison c = compare(host_float_device(), {operation, fp32, fp32, {}},
                                 {a, unary ? std::span<std::uint64_t>{} : std::span(b), {}});
    EXPECT_EQ(c.compared, a.size()) << c.skipped;
    EXPECT_EQ(c.differing, 0u) << info(operation).name;
  }
  EXPECT_FALSE(host_float_device().supports({Operation::add, fp16, fp16, {}}).yes);
}

TEST(Skeletons, AProfileAnswersAtTheEdges) {
  const auto cast = [](float x) {
    return apply(rule_for(casts::my_profile, fp32, e4m3), fp32, std::bit_cast<std::uint32_t>(x));
  };
  EXPECT_EQ(cast(464), 0x7eu);
  EXPECT_EQ(cast(1e30f), 0x7eu);
  EXPECT_EQ(cast(-1e30f), 0xfeu);
  EXPECT_EQ(cast(INFINITY), 0x7fu);
  EXPECT_EQ(cast(-NAN), 0x7fu);
}

}  // namespace skeletons_test
