// Optimizers over several steps: what reports count, checkpoints, threads, parameters without gradients.
#include "optimizer_cases.hpp"

#include <tbb/global_control.h>

namespace optimizer_run_test {

using namespace optimizer_cases;

TEST(OptimizerRun, ReportsAreWhatARecountSays) {
  // Plain SGD, whose sums scalar functions can repeat.
  const double lr = 0.03;
  Model model;
  Optimizer o(model.all(), {.kind = OptimizerKind::sgd, .lr = lr}, {.weights = in(bf16)});
  std::vector<UpdateReport> reports;
  for (std::uint64_t step = 0; step < 4; ++step) {
    const Values before = values_of(model.w.value.values());
    model.train(o, step, step + 1, &reports);
    UpdateReport want;
    double weights = 0, gradients = 0, updates = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const float g = model.w.gradient[i], u = -static_cast<float>(lr) * g, sum = rounded(bf16, before[i] + u);
      EXPECT_EQ(model.w.value[i], sum);
      want.with_update += u != 0;
      want.swamped += u != 0 && sum == before[i];
      want.changed += sum != before[i];
      want.zero_gradients += g == 0;
      weights += double{sum} * sum, gradients += double{g} * g, updates += double{u} * u;
    }
    ASSERT_EQ(reports.size(), 2u);
    const UpdateReport& got = reports[0];
    EXPECT_TRUE(got.taken);
    EXPECT_EQ(got.elements, before.size());
    EXPECT_EQ(got.with_update, want.with_update);
    EXPECT_EQ(got.swamped, want.swamped);
    EXPECT_EQ(got.changed, want.changed);
    EXPECT_EQ(got.changed + got.swamped, got.with_update);
    EXPECT_EQ(got.zero_gradients, want.zero_gradients);
    EXPECT_EQ(got.second_underflowed + got.zero_denominators + got.non_finite, 0u);
    EXPECT_NEAR(got.weight_norm, std::sqrt(weights), 1e-12 * got.weight_norm);
    EXPECT_NEAR(got.gradient_norm, std::sqrt(gradients), 1e-12 * got.gradient_norm);
    EXPECT_NEAR(got.update_norm, std::sqrt(updates), 1e-12 * got.update_norm);
    EXPECT_GT(got.swamped, 500u);
    EXPECT_GT(got.changed, 200u);
  }
}

TEST(OptimizerRun, ReportsChangeNothing) {
  for (const Way& way : ways()) {
    Model quiet, watched;
    Optimizer a(quiet.all(), way.settings, way.precision, 3), b(watched.all(), way.settings, way.precision, 3);
    std::vector<UpdateReport> reports;
    quiet.train(a, 0, 4);
    watched.train(b, 0, 4, &reports);
    EXPECT_EQ(bits(quiet.w.value.values()), bits(watched.w.value.values())) << way.name;
    EXPECT_GT(reports[0].with_update, 1900u) << way.name;
    EXPECT_GE(reports[0].with_update, reports[0].swamped) << way.name;
  }
}

/// Where an update is kept: in the weight, the master weight or the compensation.
TEST(OptimizerRun, SwampedMeansLost) {
  const auto after_one = [](const UpdatePrecision& precision, float weight, float gradient) {
    TrainedParameter<float> p("w", ParameterKind::weight, {1});
    p.value[0] = weight;
    p.gradient[0] = gradient;
    p.has_gradient = true;
    Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, precision);
    std::vector<UpdateReport> reports;
    o.step(&reports);
    return std::vector<std::uint64_t>{reports[0].with_update, reports[0].swamped, reports[0].changed,
                                      reports[0].non_finite};
  };
  using Counts = std::vector<std::uint64_t>;
  const float tiny = 0x1p-12f, between = 1.001f;  // not representable in bf16
  EXPECT_EQ(after_one({}, 1, tiny), (Counts{1, 0, 1, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16)}, 1, tiny), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .kahan = true}, 1, tiny), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .master_weights = true}, between, tiny), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .master_weights = true}, between, 0x1p-30f), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16)}, 1, 0), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(fp16)}, 1, 1e9f), (Counts{1, 0, 1, 1}));

  // An update that an existing compensation does not absorb.
  TrainedParameter<float> p("w", ParameterKind::weight, {1});
  p.value[0] = 1;
  p.has_gradient = true;
  Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, {.weights = in(bf16), .kahan = true});
  std::vector<UpdateReport> reports;
  p.gradient[0] = tiny;
  o.step(&reports);
  EXPECT_EQ(reports[0].swamped, 0u);
  p.gradient[0] = 0x1p-40f;
  o.step(&reports);
  EXPECT_EQ(reports[0].swamped, 1u);
}

TEST(OptimizerRun, GoesOnFromACheckpoint) {
  for (const Way& way : ways()) {
    Model whole, half;
    Optimizer straight(whole.all(), way.settings, way.precision, 3), begun(half.all(), way.settings, way.precision, 3);
    whole.train(straight, 0, 3);
    half.train(begun, 0, 3);
    straight.set_lr(0.005);
    begun.set_lr(0.005);
    Checkpoint kept;
    begun.save(kept);
    const Checkpoint read = Checkpoint::from_bytes(kept.bytes(), "test");
    const std::vector<Values> values{values_of(half.w.value.values()), values_of(half.b.value.values())};

    Model other;
    Optimizer resumed(other.all(), way.settings, way.precision, 3);
    std::copy(values[0].begin(), values[0].end(), other.w.value.values().begin());
    std::copy(values[1].begin(), values[1].end(), other.b.value.values().begin());
    resumed.restore(read);
    EXPECT_EQ(resumed.steps(), 3u);
    EXPECT_EQ(resumed.settings().lr, 0.005);
    whole.train(straight, 3, 6);
    other.train(resumed, 3, 6);
    EXPECT_EQ(bits(whole.w.value.values()), bits(other.w.value.values())) << way.name;
    EXPECT_EQ(bits(whole.b.value.values()), bits(other.b.value.values())) << way.name;
    Checkpoint one, two;
    straight.save(one);
    resumed.save(two);
    EXPECT_EQ(one.bytes(), two.bytes()) << way.name;
  }
}

TEST(OptimizerRun, OneResultOnEveryNumberOfThreads) {
  for (const Way& way : ways()) {
    const auto train = [&](std::size_t threads) {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
      Model model(130, 300);
      Optimizer o(model.all(), way.settings, way.precision, 3);
      std::vector<UpdateReport> reports;
      model.train(o, 0, 2, &reports);
      return std::pair{bits(model.w.value.values()), reports[0].update_norm};
    };
    EXPECT_EQ(train(1), train(2)) << way.name;
  }
}

TEST(OptimizerRun, WithoutGradientNothingHappens) {
  Model model;
  Optimizer o(model.all(), {});
  model.train(o, 0, 2);
  const Values w = values_of(model.w.value.values()), b = values_of(model.b.value.values());
  model.give_gradients(2);
  model.w.forget_gradient();
  std::vector<UpdateReport> reports;
  o.step(&reports);
  EXPECT_EQ(values_of(model.w.value.values()), w);
  EXPECT_NE(values_of(model.b.value.values()), b);
  EXPECT_FALSE(reports[0].taken);
  EXPECT_EQ(reports[0].with_update, 0u);
  EXPECT_GT(reports[0].weight_norm, 0);
  Checkpoint kept;
  o.save(kept);
  EXPECT_EQ(kept.state["optimizer"]["parameters"]["fc.weight"], 2);
  EXPECT_EQ(kept.state["optimizer"]["parameters"]["fc.bias"], 3);
}

}  // namespace optimizer_run_test
