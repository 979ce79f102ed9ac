// The probe, blind: it sees only answers, and finds the parameters of every unit of the table and of random fused
// sums, up to what no operands can tell apart.
//
// Random sums: a, b of fp16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1; accumulator fp32 or fp16; k of 4 to 64 and L
// dividing it, powers of two; 8 to 40 alignment bits; no least exponent or -150 to -10; terms and results rounded
// toward-zero, toward-negative, nearest-even or nearest-away; 8 to all fraction bits kept; every grouping, direction,
// flag, sign rule and NaN code.
#include "check.hpp"

#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/probe/infer.hpp>
#include <halfulp/evidence/probe/questions.hpp>

namespace halfulp {
namespace probe_test {

using check::Random;
using namespace probe;

MatrixUnit random_unit(std::uint64_t seed) {
  Random random{seed * 7919};
  const auto up_to = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  const auto flag = [&] { return random() % 2 == 1; };
  const std::array<FloatFormat, 8> inputs{fp16, bf16, tf32, e4m3, e5m2, e2m3, e3m2, e2m1};
  const std::array<RoundingMode, 4> modes{RoundingMode::toward_zero, RoundingMode::toward_negative,
                                          RoundingMode::nearest_even, RoundingMode::nearest_away};
  MatrixUnit u;
  u.name = "random " + std::to_string(seed);
  u.rule = &rules::fused;
  u.a = inputs[random() % 8], u.b = inputs[random() % 8];
  u.accumulator = flag() ? fp32 : fp16;
  const int depth = up_to(2, 6);
  u.k = 1 << depth;
  FusedSum& s = u.sum;
  s.length = 1 << up_to(0, depth);
  s.alignment_bits = up_to(8, 40);
  s.least_exponent = up_to(0, 3) == 0 ? FusedSum::no_least_exponent : up_to(-150, -10);
  s.alignment = modes[random() % 4], s.rounding = modes[random() % 4];
  s.kept = u.accumulator;
  if (flag()) s.kept.fraction_bits = up_to(8, u.accumulator.fraction_bits);
  s.normalized_products = flag(), s.flush_inputs = flag(), s.flush_outputs = flag(), s.descending = flag();
  s.zero = flag() ? ZeroSign::ieee : ZeroSign::positive;
  s.grouping = flag() ? Grouping::strided : Grouping::consecutive;
  s.nan = u.accumulator.with_sign(u.accumulator.infinity() + 1 + random() % u.accumulator.fraction_mask(), flag());
  return u;
}

Identification probed(const MatrixUnit& unit) {
  const MatrixShape shape = shape_of(unit);
  const MatrixCases cases = questions(shape);
  std::vector<std::uint64_t> answers(cases.size());
  const auto model = emulated_device_with(unit);
  model->multiply(model->matrix_tasks()[0], cases, answers);
  return infer(shape, cases, answers);
}

/// Operands that are not the probe's: other random numbers, terms near one another, some of which cancel.
MatrixCases other_operands(const MatrixUnit& u, std::uint64_t seed, int count) {
  Random random{seed};
  MatrixCases cases;
  const auto k = static_cast<std::size_t>(u.k);
  const std::size_t blocks = u.scaled() ? k / static_cast<std::size_t>(u.scale_block) : 0;
  for (int n = 0; n < count; ++n) {
    const auto any = [&](const FloatFormat& f) { return random() & f.code_mask(); };
    const int center = -static_cast<int>(random() % (n % 3 == 0   ? 5
                                                     : n % 3 == 1 ? 20
                                                                  : 160)),
              width = n % 5 == 0 ? 60 : 6;
    const auto near = [&](const FloatFormat& f, int e) {
      const int exponent = e + static_cast<int>(random() % static_cast<unsigned>(width)) - width / 2 + f.bias;
      const int top = static_cast<int>(f.max_finite() >> f.fraction_bits);
      std::uint64_t fraction = random() & f.fraction_mask();
      if (random() % 2 == 0) fraction &= ~(f.fraction_mask() >> random() % static_cast<unsigned>(f.fraction_bits + 1));
      const auto code = static_cast<std::uint64_t>(std::clamp(exponent, 0, top)) << f.fraction_bits | fraction;
      return f.with_sign(std::min(code, f.max_finite()), random() % 2 == 0);
    };
    std::vector<std::uint64_t> a(k), b(k), sa(blocks), sb(blocks);
    for (auto* scales : {&sa, &sb})
      for (std::uint64_t& s : *scales) s = n % 7 == 0 ? any(u.scale) : u.scale.magnitude(near(u.scale, 0));
    const std::size_t used = n % 4 == 0 ? k : 1 + random() % std::min<std::size_t>(k, 4);
    for (std::size_t i = 0; i < used; ++i) {
      const std::size_t at = n % 4 == 3 ? random() % k : i;
      a[at] = code_word(u.a, n % 8 == 0 ? any(u.a) : near(u.a, center / 2)),
      b[at] = code_word(u.b, n % 8 == 0 ? any(u.b) : near(u.b, center - center / 2));
    }
    if (n % 4 == 2) a[k / 2] = code_word(u.a, word_code(u.a, a[0]) ^ u.a.sign_mask()), b[k / 2] = b[0];
    const std::uint64_t c = n % 3 == 0    ? 0
                            : n % 11 == 0 ? any(u.accumulator)
                                          : near(u.accumulator, center - static_cast<int>(random() % 40));
    cases.add({a, b, sa, sb}, c);
  }
  return cases;
}

std::size_t differing(const MatrixUnit& x, const MatrixUnit& y, const MatrixCases& cases) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < cases.size(); ++i)
    count += mma(x, cases.products(i), cases.c[i]) != mma(y, cases.products(i), cases.c[i]);
  return count;
}

/// Whether the alignment of a sum, its bits and least exponent are among what was found to give the same together.
bool among_alternatives(const MatrixUnit& truth, const InferredModel& found) {
  const MatrixShape shape = shape_of(truth);
  const FusedSum& s = truth.sum;
  for (const Alternative& a : found.alternatives) {
    if (a.alignment != s.alignment || a.normalized != s.normalized_products || s.alignment_bits < a.bits.first ||
        s.alignment_bits > a.bits.last)
      continue;
    const int least = a.least_exponent(found.unit.sum, s.alignment_bits);
    bool alone = false;
    for (const Finding& f : found.findings)
      alone = alone || (f.parameter == SumParameter::least_exponent && f.holds(s.least_exponent));
    if (alone || least == s.least_exponent ||
        !same_for_all_operands(shape, truth, SumParameter::least_exponent, least).empty())
      return true;
  }
  return false;
}

bool of_alignment(SumParameter p) {
  return p == SumParameter::alignment_bits || p == SumParameter::alignment || p == SumParameter::normalized ||
         p == SumParameter::least_exponent;
}

/// The rule is among those found, each of its parameters among the values found, and the found unit is the true one
/// elsewhere.
void expect_recovered(const MatrixUnit& truth, const Identification& found) {
  EXPECT_EQ(found.unexplained, 0u) << truth.name;
  const InferredModel* same_rule = nullptr;
  for (const InferredModel& m : found.models)
    if (m.unit.rule == truth.rule) same_rule = &m;
  ASSERT_NE(same_rule, nullptr) << truth.name << ": " << found.models.size() << " models, none of the rule "
                                << truth.rule->name;
  for (const Finding& f : same_rule->findings) {
    const bool together = of_alignment(f.parameter) && among_alternatives(truth, *same_rule);
    EXPECT_TRUE(f.holds(get(truth.sum, f.parameter)) || together)
        << truth.name << ": " << text(shape_of(truth), f.parameter, get(truth.sum, f.parameter)) << ", but "
        << sentence(shape_of(truth), f);
  }
  EXPECT_FALSE(same_rule->findings.empty() && truth.rule != &rules::odd_even_pair) << truth.name;
  const MatrixCases other = other_operands(truth, 99, 1500), own = questions(shape_of(truth));
  for (const Finding& f : same_rule->findings)
    for (const ValueRange& i : f.values)
      for (const std::int64_t value : {i.first, i.last}) {
        MatrixUnit changed = same_rule->unit;
        set(changed.sum, f.parameter, value);
        if (!f.proven || value == f.value) continue;
        // The questions again: an argument was trusted, not they.
        EXPECT_EQ(differing(truth, changed, value == i.last ? own : other), 0u)
            << truth.name << ": " << sentence(shape_of(truth), f);
      }
  for (const InferredModel& m : found.models)
    EXPECT_EQ(differing(truth, m.unit, other), 0u)
        << truth.name << " and the model found, by rule " << m.unit.rule->name;
}

TEST(Probe, RecoversEveryUnitOfTheTable) {
  std::size_t row = 0;
  for (const MatrixUnit& unit : matrix_units()) {
    if (!check::exhaustive() && row++ % 6 != 0) continue;  // the random sums below are of the same kinds
    const Identification found = probed(unit);
    expect_recovered(unit, found);
    EXPECT_NE(std::find(found.rows.begin(), found.rows.end(), unit.name), found.rows.end()) << unit.name;
  }
}

TEST(Probe, RecoversRandomSums) {
  const std::uint64_t last = check::exhaustive() ? 200 : 30;
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    const MatrixUnit unit = random_unit(seed);
    ASSERT_EQ(refusal(unit), "") << seed;
    expect_recovered(unit, probed(unit));
  }
}

/// This CPU's instructions, where it has them, are what the table says.
TEST(Probe, RecognisesThisCpu) {
  int asked = 0;
  const MatrixTasks here = find_matrix_tasks("x86");
  for (const MatrixTask& task : here.tasks) {
    if (!task.here.yes) continue;
    const MatrixCases cases = questions(task.shape);
    std::vector<std::uint64_t> answers(cases.size());
    here.device->multiply(task, cases, answers);
    const Identification found = infer(task.shape, cases, answers);
    EXPECT_EQ(found.unexplained, 0u) << task.unit;
    EXPECT_EQ(found.rows.size(), 1u) << task.unit;
    EXPECT_EQ(found.rows.front(), task.unit);
    ++asked;
  }
  if (asked == 0) GTEST_SKIP() << "this CPU has no matrix instructions";
}

/// A device that no model describes is said to be none, with what is nearest.
TEST(Probe, KnowsWhatItDoesNotKnow) {
  const MatrixUnit& unit = find_unit("hopper.mma.fp16.fp32");
  const MatrixShape shape = shape_of(unit);
  const MatrixCases cases = questions(shape);
  std::vector<std::uint64_t> answers(cases.size());
  const auto model = emulated_device_with(unit);
  model->multiply(model->matrix_tasks()[0], cases, answers);
  *std::find_if(answers.begin(), answers.end(),
                [](std::uint64_t d) { return fp32.is_finite(d) && d > 0x3f80'0000; }) ^= 1;
  const Identification found = infer(shape, cases, answers);
  EXPECT_TRUE(found.models.empty());
  EXPECT_TRUE(found.rows.empty());
  EXPECT_EQ(found.nearest_differs, 1u);
  EXPECT_EQ(found.unexplained, 1u);
  EXPECT_EQ(found.observed.back(), "added at once: 16 consecutive products");
}

TEST(Probe, TakesItsOwnQuestionsOnly) {
  const MatrixShape shape = shape_of(find_unit("volta.mma.fp16.fp32"));
  MatrixCases cases = questions(shape);
  std::vector<std::uint64_t> answers(cases.size());
  EXPECT_THROW(infer(shape, cases, std::span(answers).first(7)), std::invalid_argument);
  cases.a[5] ^= 1;
  EXPECT_THROW(infer(shape, cases, answers), std::invalid_argument);
}

TEST(Probe, AsksTheSameWhateverTheDevice) {
  const auto operands = [](std::string_view unit) { return questions(shape_of(find_unit(unit))).a; };
  EXPECT_EQ(operands("hopper.mma.fp16.fp32"), operands("cdna1.mfma.fp16.fp32"));
  for (const MatrixUnit& unit : matrix_units()) EXPECT_LT(questions(shape_of(unit)).size(), 25'000u) << unit.name;
}

TEST(ProbeBackends, NamesAreLookedUp) {
  EXPECT_EQ(find_matrix_tasks("emulated:hopper.mma.fp16.fp32").tasks.size(), 1u);
  EXPECT_THROW(find_matrix_tasks("emulated:hopper"), std::invalid_argument);
  EXPECT_THROW(find_matrix_tasks("emulation"), std::invalid_argument);
  EXPECT_THROW(find_matrix_tasks("recorded:nothing"), std::invalid_argument);
  EXPECT_THROW(find_matrix_tasks("x86:x86.amx"), std::invalid_argument);
  for (const auto* name : {"x86", "cuda", "recorded:amd-zen4"}) {
    const MatrixTasks found = find_matrix_tasks(name);
    EXPECT_EQ(found.tasks.empty(), !found.reason.empty()) << name;
    for (const MatrixTask& task : found.tasks)
      EXPECT_EQ(find_matrix_tasks(matrix_name(*found.device, task)).tasks.size(), 1u) << task.unit;
  }
}

}  // namespace probe_test
}  // namespace halfulp
