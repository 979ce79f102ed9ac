// Optimizers: what precision does to an update, against counts and sums made here. (Their formulas are PyTorch's: optimizer_torch_test.)
#include "check.hpp"

#include <halfulp/experiments/training/optimizer.hpp>
#include <halfulp/formats/block_catalogue.hpp>

#include <tbb/global_control.h>

#include <bit>
#include <cmath>
#include <functional>

namespace {

using namespace halfulp;
using namespace halfulp::training;

Storage in(const FloatFormat& f, RoundingMode mode = RoundingMode::nearest_even) {
  Storage s;
  s.format = f;
  s.rounding.mode = mode;
  return s;
}
Storage in_blocks(const char* name) {
  Storage s;
  s.format = parse_block_format(name);
  return s;
}
float rounded(const FloatFormat& f, double x) { return static_cast<float>(f.value(encode(f, {}, x).code)); }

using Values = std::vector<float>;
Values values_of(std::span<const float> x) { return {x.begin(), x.end()}; }
std::vector<std::uint32_t> bits(std::span<const float> x) {
  std::vector<std::uint32_t> words;
  for (const float v : x) words.push_back(std::bit_cast<std::uint32_t>(v));
  return words;
}

/// Two parameters, and gradients that are a function of the step.
struct Model {
  Parameter<float> w, b;
  explicit Model(std::size_t rows = 7, std::size_t columns = 300)
      : w("fc.weight", ParameterKind::weight, {rows, columns}), b("fc.bias", ParameterKind::bias, {rows}) {
    check::Random random{5};
    for (Parameter<float>* const p : all())
      for (float& v : p->value.values()) v = static_cast<float>(draw(random));
  }
  static double draw(check::Random& random) { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; }
  std::vector<Parameter<float>*> all() { return {&w, &b}; }
  void give_gradients(std::uint64_t step) {
    check::Random random{1000 + step};
    for (Parameter<float>* const p : all()) {
      for (float& g : p->gradient.values()) {
        g = static_cast<float>(draw(random) * std::exp2(-static_cast<double>(random() % 30)));
        if (random() % 16 == 0) g = 0;
      }
      p->has_gradient = true;
    }
  }
  void train(Optimizer& optimizer, std::uint64_t from, std::uint64_t to, std::vector<UpdateReport>* reports = nullptr) {
    for (std::uint64_t step = from; step < to; ++step) {
      give_gradients(step);
      optimizer.step(reports);
    }
  }
};

/// Settings and precisions that differ in what they keep and round.
struct Way {
  const char* name;
  OptimizerSettings settings;
  UpdatePrecision precision;
};
std::vector<Way> ways() {
  const OptimizerSettings adam{.lr = 1e-2}, adamw{.kind = OptimizerKind::adamw, .lr = 1e-2, .weight_decay = 0.1};
  const OptimizerSettings sgd{.kind = OptimizerKind::sgd, .lr = 0.1};
  const OptimizerSettings momentum{.kind = OptimizerKind::sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true};
  UpdatePrecision pure;
  pure.weights = pure.first = pure.second = in(bf16);
  pure.arithmetic = Stage{bf16};
  UpdatePrecision stochastic = pure;
  stochastic.weights = stochastic.first = in(bf16, RoundingMode::stochastic);
  stochastic.arithmetic->rounding.mode = RoundingMode::stochastic;
  UpdatePrecision eight_bits{.weights = in(bf16), .master_weights = true};
  eight_bits.first = eight_bits.second = in_blocks("e4m3/1x256/fp32");
  return {{"fp32", adam, {}}, {"sgd", sgd, {.weights = in(bf16)}}, {"momentum", momentum, {.weights = in(fp16)}},
          {"pure", adamw, pure}, {"stochastic", adamw, stochastic}, {"8 bits", adam, eight_bits},
          {"kahan", adamw, {.weights = in(bf16), .kahan = true}}, {"blocks", adam, {.weights = in_blocks("mxfp8e4m3")}},
          {"master", momentum, {.weights = in(fp16), .master_weights = true, .first = in(bf16)}}};
}

TEST(Optimizer, MasterWeightsAreTheFp32Run) {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    const OptimizerSettings settings{.kind = kind, .lr = 1e-2, .momentum = 0.9, .weight_decay = 0.01};
    Model plain, narrow;
    Optimizer in_fp32(plain.all(), settings), with_master(narrow.all(), settings, {.weights = in(bf16), .master_weights = true});
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
  EXPECT_EQ(bits(plain.w.value.values()), bits(narrow.w.value.values())) << "the update takes states that are not rounded yet";
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

TEST(Optimizer, ReportsAreWhatARecountSays) {
  // Plain SGD, where every sum can be done again by scalar functions.
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

TEST(Optimizer, ReportsChangeNothing) {
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

/// Where an update stays: in the weight, in the master weight, in the compensation.
TEST(Optimizer, SwampedMeansLost) {
  const auto after_one = [](const UpdatePrecision& precision, float weight, float gradient) {
    Parameter<float> p("w", ParameterKind::weight, {1});
    p.value[0] = weight;
    p.gradient[0] = gradient;
    p.has_gradient = true;
    Optimizer o({&p}, {.kind = OptimizerKind::sgd, .lr = 1}, precision);
    std::vector<UpdateReport> reports;
    o.step(&reports);
    return std::vector<std::uint64_t>{reports[0].with_update, reports[0].swamped, reports[0].changed, reports[0].non_finite};
  };
  using Counts = std::vector<std::uint64_t>;
  const float tiny = 0x1p-12f;
  EXPECT_EQ(after_one({}, 1, tiny), (Counts{1, 0, 1, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16)}, 1, tiny), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .kahan = true}, 1, tiny), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .master_weights = true}, 1, tiny), (Counts{1, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16), .master_weights = true}, 1, 0x1p-30f), (Counts{1, 1, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(bf16)}, 1, 0), (Counts{0, 0, 0, 0}));
  EXPECT_EQ(after_one({.weights = in(fp16)}, 1, 1e9f), (Counts{1, 0, 1, 1}));
}

TEST(Optimizer, KahanKeepsWhatSumsLose) {
  // 1000 updates of 2^-12 from 1, where bf16 has units of 2^-8 below: to nearest none of them moves the weight.
  for (const bool narrow : {false, true}) {
    const auto train = [&](bool kahan) {
      UpdatePrecision precision{.weights = in(bf16), .kahan = kahan};
      if (narrow) precision.arithmetic = Stage{bf16};
      Parameter<float> p("w", ParameterKind::weight, {3});
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
  // A decay of 2^-11 a step, which bf16 cannot show.
  const auto train = [](bool kahan) {
    Parameter<float> p("w", ParameterKind::weight, {1});
    p.value[0] = 1;
    p.has_gradient = true;  // of 0
    Optimizer o({&p}, {.kind = OptimizerKind::adamw, .lr = 0x1p-5, .weight_decay = 0x1p-6}, {.weights = in(bf16), .kahan = kahan});
    for (int i = 0; i < 512; ++i) o.step();
    return p.value[0];
  };
  EXPECT_EQ(train(false), 1);
  EXPECT_NEAR(train(true), std::pow(1 - 0x1p-11, 512), 0x1p-8);
}

TEST(Optimizer, StochasticRoundingIsUnbiased) {
  constexpr std::size_t n = 40'000;
  const auto sum_after = [&](std::uint64_t seed, const char* name, int steps, Values* after = nullptr) {
    Parameter<float> p(name, ParameterKind::weight, {n});
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
  EXPECT_NEAR(sum_after(1, "w", 9), 9 * 0x1p-9, 15 * deviation) << "steps draw apart";
  Values a, b, other_seed, other_name;
  sum_after(1, "w", 2, &a);
  sum_after(1, "w", 2, &b);
  sum_after(2, "w", 2, &other_seed);
  sum_after(1, "v", 2, &other_name);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other_seed);
  EXPECT_NE(a, other_name);
}

TEST(Optimizer, GoesOnFromACheckpoint) {
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

TEST(Optimizer, OneResultOnEveryNumberOfThreads) {
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

TEST(Optimizer, WithoutGradientNothingHappens) {
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

TEST(Optimizer, RoundedConstants) {
  const auto train = [](const FloatFormat& f, bool constants, float gradient, std::vector<UpdateReport>& reports, Checkpoint& kept) {
    Parameter<float> p("w", ParameterKind::weight, {100});
    std::fill(p.value.values().begin(), p.value.values().end(), 1.0f);
    std::fill(p.gradient.values().begin(), p.gradient.values().end(), gradient);
    p.has_gradient = true;
    UpdatePrecision precision{.weights = in(f), .first = in(f), .second = in(f), .rounded_constants = constants};
    precision.arithmetic = Stage{f};
    Optimizer o({&p}, {}, precision);
    for (int i = 0; i < 3; ++i) o.step(&reports);
    o.save(kept);
    Values second(100);
    kept.take("optimizer.w.second", std::span<float>(second));
    return second[0];
  };
  std::vector<UpdateReport> reports;
  Checkpoint kept[4];
  // bf16(0.999) is 1, and 1 - 1 is 0: the mean of squares stays where it began.
  EXPECT_EQ(train(bf16, true, 0.5f, reports, kept[0]), 0);
  EXPECT_EQ(reports[0].second_underflowed, 100u);
  EXPECT_EQ(reports[0].zero_denominators, 0u) << "bf16 has 1e-8";
  EXPECT_NEAR(train(bf16, false, 0.5f, reports, kept[1]), 3 * 0.001 * 0.25, 1e-5);
  EXPECT_EQ(reports[0].second_underflowed, 0u);
  // fp16(1e-8) is 0, and squares of 1e-3 are too small for fp16: 0 is what updates are divided by.
  EXPECT_EQ(train(fp16, true, 1e-3f, reports, kept[2]), 0);
  EXPECT_EQ(reports[0].zero_denominators, 100u);
  EXPECT_EQ(reports[0].non_finite, 100u);
  // As a number that is not rounded 1e-8 is lost as well, in the sum. A larger gradient has a denominator.
  EXPECT_NEAR(train(fp16, true, 0.5f, reports, kept[3]), 3 * 0.001 * 0.25, 3e-5);
  EXPECT_EQ(reports[0].zero_denominators + reports[0].non_finite, 0u);
}

TEST(Optimizer, Refusals) {
  Model model;
  const auto refusal = [&](const OptimizerSettings& settings, const UpdatePrecision& precision, bool twice = false) -> std::string {
    try {
      std::vector<Parameter<float>*> all = model.all();
      if (twice) all.push_back(&model.w);
      Optimizer o(all, settings, precision);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal({}, {}), "accepted");
  EXPECT_EQ(refusal({.lr = -1}, {}), "optimizer: lr is -1; accepted: a number from 0 on");
  EXPECT_EQ(refusal({.beta2 = 1}, {}), "optimizer: beta2 is 1; accepted: a number from 0 up to but not 1");
  EXPECT_EQ(refusal({.eps = NAN}, {}), "optimizer: eps is nan; accepted: a number from 0 on");
  EXPECT_EQ(refusal({.kind = OptimizerKind::sgd, .nesterov = true}, {}), "optimizer: nesterov without momentum");
  EXPECT_EQ(refusal({}, {.master_weights = true, .kahan = true}), "optimizer: master_weights and kahan; accepted: one of them");
  EXPECT_EQ(refusal({}, {.rounded_constants = true}), "optimizer: rounded_constants without arithmetic, whose format they are rounded to");
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

}  // namespace
