// Optimizers: the effect of precision on an update. optimizer_torch_test compares their formulas with PyTorch's.
#include "optimizer_cases.hpp"

#include <algorithm>

namespace optimizer_test {

using namespace optimizer_cases;

TEST(Optimizer, MasterWeightsAreTheFp32Run) {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    const OptimizerSettings settings{.kind = kind, .lr = 1e-2, .momentum = 0.9, .weight_decay = 0.01};
    Model plain, narrow;
    Optimizer in_fp32(plain.all(), settings),
        with_master(narrow.all(), settings, {.weights = in(bf16), .master_weights = true});
    plain.train(in_fp32, 0, 5);
    narrow.train(with_master, 0, 5);
    Checkpoint kept;
    with_master.save(kept);
    Values master(plain.w.value.size());
    kept.take("optimizer.fc.weight.master", std::span<float>(master));
    EXPECT_EQ(bits(master), bits(plain.w.value.values()));
    for (std::size_t i = 0; i < master.size(); ++i) ASSERT_EQ(narrow.w.value[i], rounded(bf16, master[i]));
  }
}

TEST(Optimizer, ParametersAreRoundedAtOnce) {
  Model model;
  const Values before = values_of(model.w.value.values());
  Optimizer o(model.all(), {}, {.weights = in(bf16)});
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(model.w.value[i], rounded(bf16, before[i]));
}

TEST(Optimizer, StatesAreRoundedWhenStored) {
  const Storage blocks = in_blocks("e4m3/1x256/fp32");
  Model plain, narrow;
  Optimizer in_fp32(plain.all(), {}), eight_bits(narrow.all(), {}, {.first = in(bf16), .second = blocks});
  plain.train(in_fp32, 0, 1);
  narrow.train(eight_bits, 0, 1);
  EXPECT_EQ(bits(plain.w.value.values()), bits(narrow.w.value.values()))
      << "the update takes states that are not rounded yet";
  Checkpoint exact, kept;
  in_fp32.save(exact);
  eight_bits.save(kept);
  Values first(plain.w.value.size()), second(first), rounded_first(first), rounded_second(first);
  exact.take("optimizer.fc.weight.first", std::span<float>(first));
  exact.take("optimizer.fc.weight.second", std::span<float>(second));
  kept.take("optimizer.fc.weight.first", std::span<float>(rounded_first));
  kept.take("optimizer.fc.weight.second", std::span<float>(rounded_second));
  EXPECT_NE(second, rounded_second);
  store(in(bf16), 300, first);
  store(blocks, 300, second);  // rows of 300: blocks of 256 and 44
  EXPECT_EQ(first, rounded_first);
  EXPECT_EQ(second, rounded_second);
  plain.train(in_fp32, 1, 2);
  narrow.train(eight_bits, 1, 2);
  EXPECT_NE(bits(plain.w.value.values()), bits(narrow.w.value.values()));
}

TEST(Optimizer, BlocksLieAlongRows) {
  Model model, like;
  const Storage blocks = in_blocks("fp8-1x128");
  Optimizer o(model.all(), {}, {.weights = blocks});
  store(blocks, 300, like.w.value.values());  // blocks of 128, 128 and 44
  EXPECT_EQ(bits(model.w.value.values()), bits(like.w.value.values()));
}

TEST(Optimizer, ArithmeticInANarrowerFormatThanStorage) {
  Model model;
  Optimizer o(model.all(), {.kind = OptimizerKind::sgd, .lr = 0.1, .momentum = 0.9}, {.arithmetic = Stage{bf16}});
  const Values before = values_of(model.w.value.values());
  model.train(o, 0, 1);
  Checkpoint kept;
  o.save(kept);
  Values first(before.size());
  kept.take("optimizer.fc.weight.first", std::span<float>(first));
  EXPECT_EQ(first, values_of(model.w.gradient.values())) << "the first momentum is a copy, which is not rounded";
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(model.w.value[i], before[i] + -0.1f * first[i]) << "written as stored";
  model.train(o, 1, 2);
  Checkpoint later;
  o.save(later);
  Values second(before.size());
  later.take("optimizer.fc.weight.first", std::span<float>(second));
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(second[i], rounded(bf16, rounded(bf16, 0.9f * first[i]) + model.w.gradient[i]));
}

/// Weights are rounded once when written, by their own rounding. An arithmetic that rounds to nearest does not change
/// that.
TEST(Optimizer, StochasticWeightsBesideNearestArithmetic) {
  constexpr std::size_t n = 50'000;
  TrainedParameter<float> p("w", ParameterKind::weight, {n});
  std::fill(p.value.values().begin(), p.value.values().end(), 1.0f);
  std::fill(p.gradient.values().begin(), p.gradient.values().end(), -0x1p-10f);  // an eighth of the unit above 1
  p.has_gradient = true;
  Storage stochastic = in(bf16);
  stochastic.rounding.mode = RoundingMode::stochastic;
  Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, {.weights = stochastic, .arithmetic = Stage{bf16}}, 7);
  o.step();
  double sum = 0;
  for (const float v : p.value.values()) sum += v - 1;
  EXPECT_NEAR(sum / n, 0x1p-10, 5 * 0x1p-7 * std::sqrt(7.0 / 64 / n));
}

TEST(Optimizer, KahanKeepsWhatSumsLose) {
  // 1000 updates of 2^-12 below 1, where bf16 has units of 2^-8: rounded to nearest, none of them moves the weight.
  for (const bool narrow : {false, true}) {
    const auto train = [&](bool kahan) {
      UpdatePrecision precision{.weights = in(bf16), .kahan = kahan};
      if (narrow) precision.arithmetic = Stage{bf16};
      TrainedParameter<float> p("w", ParameterKind::weight, {3});
      p.value = Tensor<float>({3}, {1.0f, -1.0f, 0.5f});
      p.gradient = Tensor<float>({3}, {0x1p-12f, 0x1.8p-12f, -0x1.fep-13f});
      p.has_gradient = true;
      Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, precision);
      for (int i = 0; i < 1000; ++i) o.step();
      return values_of(p.value.values());
    };
    EXPECT_EQ(train(false), (Values{1.0f, -1.0f, 0.5f}));
    const Values kept = train(true);
    EXPECT_NEAR(kept[0], 1 - 1000 * 0x1p-12, 0x1p-8);
    EXPECT_NEAR(kept[1], -1 - 1000 * 0x1.8p-12, 0x1p-7);
    EXPECT_NEAR(kept[2], 0.5 + 1000 * 0x1.fep-13, 0x1p-8);
  }
}

TEST(Optimizer, KahanTakesTheDecayToo) {
  // A decay of 2^-11 per step, which bf16 cannot represent.
  const auto train = [](bool kahan) {
    TrainedParameter<float> p("w", ParameterKind::weight, {1});
    p.value[0] = 1;
    p.has_gradient = true;  // of 0
    Optimizer o({&p}, {.kind = OptimizerKind::adamw, .lr = 0x1p-5, .weight_decay = 0x1p-6},
                {.weights = in(bf16), .kahan = kahan});
    for (int i = 0; i < 512; ++i) o.step();
    return p.value[0];
  };
  EXPECT_EQ(train(false), 1);
  EXPECT_NEAR(train(true), std::pow(1 - 0x1p-11, 512), 0x1p-8);
}

TEST(Optimizer, StochasticRoundingIsUnbiased) {
  constexpr std::size_t n = 40'000;
  const auto sum_after = [&](std::uint64_t seed, const char* name, int steps, Values* after = nullptr) {
    TrainedParameter<float> p(name, ParameterKind::weight, {n});
    std::fill(p.value.values().begin(), p.value.values().end(), 1.0f);
    std::fill(p.gradient.values().begin(), p.gradient.values().end(), -0x1p-9f);
    p.has_gradient = true;
    Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, {.weights = in(bf16, RoundingMode::stochastic)}, seed);
    for (int i = 0; i < steps; ++i) o.step();
    if (after) *after = values_of(p.value.values());
    double sum = 0;
    for (const float v : p.value.values()) sum += v - 1;
    return sum / n;
  };
  // A quarter of a unit of 2^-7: the standard deviation of the mean is unit sqrt(3 / 16 / n).
  const double deviation = 0x1p-7 * std::sqrt(3.0 / 16 / n);
  EXPECT_NEAR(sum_after(1, "w", 1), 0x1p-9, 5 * deviation);
  Values nine, a, b, other_seed, other_name;
  EXPECT_NEAR(sum_after(1, "w", 9, &nine), 9 * 0x1p-9, 15 * deviation);
  double variance = 0;
  for (const float v : nine) variance += (v - 1 - 9 * 0x1p-9) * (v - 1 - 9 * 0x1p-9) / n;
  EXPECT_NEAR(variance / 0x1p-14, 9 * 3.0 / 16, 0.1) << "nine draws that are independent";
  sum_after(1, "w", 2, &a);
  sum_after(1, "w", 2, &b);
  sum_after(2, "w", 2, &other_seed);
  sum_after(1, "v", 2, &other_name);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other_seed);
  EXPECT_NE(a, other_name);
}

TEST(Optimizer, BeginForgets) {
  // After begin() an optimizer equals a new one of the same parameters, in its state and in the steps that follow.
  for (const Way& way : ways()) {
    Model used, fresh;
    Optimizer a(used.all(), way.settings, way.precision, 3);
    used.train(a, 0, 3);
    used.w.value.values()[0] = 1 + 0x1p-20f;
    for (std::size_t i = 0; i < 2; ++i)
      std::copy(used.all()[i]->value.values().begin(), used.all()[i]->value.values().end(),
                fresh.all()[i]->value.values().begin());
    a.begin();
    Optimizer b(fresh.all(), way.settings, way.precision, 3);
    used.train(a, 0, 2);
    fresh.train(b, 0, 2);
    Checkpoint of_a, of_b;
    a.save(of_a), b.save(of_b);
    EXPECT_EQ(of_a.bytes(), of_b.bytes()) << way.name;
    EXPECT_EQ(bits(used.w.value.values()), bits(fresh.w.value.values())) << way.name;
  }
}

TEST(Optimizer, StochasticOperationsDrawForEveryElement) {
  constexpr std::size_t n = 50'000;
  TrainedParameter<float> p("w", ParameterKind::weight, {n});
  std::fill(p.gradient.values().begin(), p.gradient.values().end(), 0.3f);
  p.has_gradient = true;
  Stage stage{bf16};
  stage.rounding.mode = RoundingMode::stochastic;
  Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1, .weight_decay = 1}, {.arithmetic = stage},
              7);  // of weights 0
  o.step();
  const auto begin = p.value.values().begin(), end = p.value.values().end();
  EXPECT_EQ(std::search(begin + 1, end, begin, begin + 64), end) << "the first 64 draws come again";
  double sum = 0;
  for (const float v : p.value.values()) sum += v;
  EXPECT_NEAR(sum / n, -0.3, 5 * 0x1p-9 * 0.5 / std::sqrt(n));
}

TEST(Optimizer, RoundedConstants) {
  const auto train = [](const FloatFormat& f, bool constants, float gradient, std::vector<UpdateReport>& reports,
                        Checkpoint& kept) {
    TrainedParameter<float> p("w", ParameterKind::weight, {100});
    std::fill(p.value.values().begin(), p.value.values().end(), 1.0f);
    std::fill(p.gradient.values().begin() + 1, p.gradient.values().end(), gradient);  // the first one is 0
    p.has_gradient = true;
    UpdatePrecision precision{.weights = in(f), .first = in(f), .second = in(f), .rounded_constants = constants};
    precision.arithmetic = Stage{f};
    Optimizer o({&p}, {}, precision);
    for (int i = 0; i < 3; ++i) o.step(&reports);
    o.save(kept);
    Values second(100);
    kept.take("optimizer.w.second", std::span<float>(second));
    return second[1];
  };
  std::vector<UpdateReport> reports;
  Checkpoint kept[4];
  // bf16(0.999) is 1, and 1 - 1 is 0, so the mean of squares never changes.
  EXPECT_EQ(train(bf16, true, 0.5f, reports, kept[0]), 0);
  EXPECT_EQ(reports[0].second_underflowed, 99u);
  EXPECT_EQ(reports[0].zero_gradients, 1u);
  EXPECT_EQ(reports[0].zero_denominators, 0u) << "bf16 has 1e-8";
  EXPECT_NEAR(train(bf16, false, 0.5f, reports, kept[1]), 3 * 0.001 * 0.25, 1e-5);
  EXPECT_EQ(reports[0].second_underflowed, 0u);
  // fp16(1e-8) is 0, and fp16 loses the squares of 1e-3, so updates are divided by 0.
  EXPECT_EQ(train(fp16, true, 1e-3f, reports, kept[2]), 0);
  EXPECT_EQ(reports[0].zero_denominators, 100u);
  EXPECT_EQ(reports[0].non_finite, 100u);
  // An unrounded 1e-8 is also lost, in the sum. A larger gradient has a nonzero denominator.
  EXPECT_NEAR(train(fp16, true, 0.5f, reports, kept[3]), 3 * 0.001 * 0.25, 3e-5);
  EXPECT_EQ(reports[0].zero_denominators, 1u);
  EXPECT_EQ(reports[0].non_finite, 1u) << "0 / 0";

  // eps 1 + 2^-8 - 2^-12 is 1 in bf16. The root of the mean of squares is 2^-9. The denominator is 1 or, with an
  // unrounded eps, 1 + 2^-7.
  for (const bool constants : {false, true}) {
    TrainedParameter<float> p("w", ParameterKind::weight, {1});
    p.gradient[0] = 0x1p-9f;
    p.has_gradient = true;
    Optimizer o({&p}, {.lr = 1, .beta1 = 0, .beta2 = 0, .eps = 1 + 0x1p-8 - 0x1p-12},
                {.arithmetic = Stage{bf16}, .rounded_constants = constants});
    o.step();
    EXPECT_EQ(p.value[0], constants ? -0x1p-9f : -static_cast<float>(0x1p-9 / (1 + 0x1p-7)));
  }
}

TEST(Optimizer, Refusals) {
  Model model;
  const auto refusal = [&](const OptimizerSettings& settings, const UpdatePrecision& precision,
                           bool twice = false) -> std::string {
    try {
      std::vector<TrainedParameter<float>*> all = model.all();
      if (twice) all.push_back(&model.w);
      Optimizer o(all, settings, precision);
    } catch (const std::invalid_argument& error) { return error.what(); }
    return "accepted";
  };
  EXPECT_EQ(refusal({}, {}), "accepted");
  EXPECT_EQ(refusal({.lr = -1}, {}), "optimizer: lr is -1; accepted: a number from 0 on");
  EXPECT_EQ(refusal({.beta2 = 1}, {}), "optimizer: beta2 is 1; accepted: a number from 0 up to but not 1");
  EXPECT_EQ(refusal({.eps = NAN}, {}), "optimizer: eps is nan; accepted: a number from 0 on");
  EXPECT_EQ(refusal({.kind = OptimizerKind::sgd, .nesterov = true}, {}), "optimizer: nesterov without momentum");
  EXPECT_EQ(refusal({}, {.master_weights = true, .kahan = true}),
            "optimizer: master_weights and kahan; accepted: one of them");
  EXPECT_EQ(refusal({}, {.rounded_constants = true}),
            "optimizer: rounded_constants without arithmetic, whose format they are rounded to");
  EXPECT_EQ(refusal({}, {}, true), "optimizer: two parameters are named 'fc.weight'");
  EXPECT_THROW(parse_optimizer("adm"), std::invalid_argument);
  EXPECT_EQ(parse_optimizer("adamw"), OptimizerKind::adamw);
  for (const auto& [name, kind] : optimizer_kinds) EXPECT_EQ(name_of(kind), name);

  Optimizer o(model.all(), {});
  EXPECT_THROW(o.set_lr(INFINITY), std::invalid_argument);
  Checkpoint other;
  EXPECT_THROW(o.restore(other), std::invalid_argument);
  Optimizer(model.all(), {.kind = OptimizerKind::sgd}).save(other);
  EXPECT_THROW(o.restore(other), std::invalid_argument) << "of another optimizer";
  EXPECT_EQ(o.steps(), 0u);
}

}  // namespace optimizer_test
