// The engine of `halfulp verify`: it finds what is planted, classes it, and gives one digest on any number of threads.
#include "check.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/commands/verification.hpp>
#include <halfulp/evidence/verify/verify.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <cmath>
#include <set>

namespace verify_test {

using namespace halfulp;
using namespace halfulp::verify;
using halfulp::cli::Verification;

Task task_of(Operation operation, const FloatFormat& from, const FloatFormat& to,
             RoundingMode mode = RoundingMode::nearest_even) {
  Task task{operation, from, to, {}};
  task.rounding.mode = mode;
  return task;
}
Task task_of(Operation operation, const FloatFormat& f) { return task_of(operation, f, f); }

/// A reference that is the oracle but for what `change` makes of its results.
class Planted : public Reference {
 public:
  using Change = std::function<Rounded(const std::array<std::uint64_t, 3>& operands, Rounded right)>;
  Planted(const Task& task, Change change) : task_(task), change_(std::move(change)) {}
  bool knows_flags() const override { return true; }
  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags> flags) const override {
    const auto at = [](std::span<const std::uint64_t> s, std::size_t i) { return s.empty() ? 0 : s[i]; };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::array<std::uint64_t, 3> operands{x.a[i], at(x.b, i), at(x.c, i)};
      const Rounded result = change_(operands, oracle::evaluate(task_, operands[0], operands[1], operands[2]));
      codes[i] = result.code;
      flags[i] = result.flags;
    }
  }

 private:
  Task task_;
  Change change_;
};

Comparison found_by(const Reference& reference, const Task& task, const OperandSet& operands) {
  Comparison found;
  for (std::uint64_t i = 0; i < number_of_chunks(operands); ++i)
    found += verify_chunk(task, operands, &reference, i).found;
  return found;
}

// Inputs.

TEST(VerifyInputs, AreNumberedWithTheLastOperandFastest) {
  std::vector<std::uint64_t> a(3), b(3), c(3);
  all_operands(task_of(Operation::fma, e4m3)).fill(0x0102fe, a, b, c);
  EXPECT_EQ(a, (std::vector<std::uint64_t>{1, 1, 1}));
  EXPECT_EQ(b, (std::vector<std::uint64_t>{2, 2, 3}));
  EXPECT_EQ(c, (std::vector<std::uint64_t>{0xfe, 0xff, 0}));
  all_operands(task_of(Operation::add, fp16)).fill(0x7fffffff, a, b, {});
  EXPECT_EQ(a, (std::vector<std::uint64_t>{0x7fff, 0x8000, 0x8000}));
  EXPECT_EQ(b, (std::vector<std::uint64_t>{0xffff, 0, 1}));
  EXPECT_EQ(number_of_operands(task_of(Operation::add, e2m1)), 256u);
  EXPECT_EQ(number_of_operands(task_of(Operation::add, bf16)), std::uint64_t{1} << 32);
  EXPECT_EQ(number_of_operands(task_of(Operation::add, fp32)), std::nullopt);
}

TEST(VerifyInputs, PairsMeetEveryAddend) {
  const Task fma = task_of(Operation::fma, e2m3);
  const std::vector<std::uint64_t> addends = chosen_addends(e2m3, 5);
  EXPECT_EQ(addends.size(), 5u);
  const OperandSet inputs = pairs_with(fma, addends);
  ASSERT_EQ(inputs.count, 5u << 12);
  std::set<std::array<std::uint64_t, 3>> seen;
  for (std::uint64_t begin = 0; begin < inputs.count;
       begin += 1000) {  // parts begin anywhere, in the midst of a pair's
    const std::uint64_t size = std::min<std::uint64_t>(1000, inputs.count - begin);
    std::vector<std::uint64_t> a(size), b(size), c(size);
    inputs.fill(begin, a, b, c);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_TRUE(a[i] < 64 && b[i] < 64 && std::count(addends.begin(), addends.end(), c[i]) == 1);
      seen.insert({a[i], b[i], c[i]});
    }
  }
  EXPECT_EQ(seen.size(), inputs.count);
  // Against the oracle, over the words' own width.
  const auto reference = make_reference(oracle_device(), fma, inputs);
  EXPECT_EQ(found_by(*reference, fma, inputs).compared, inputs.count);
  EXPECT_EQ(found_by(*reference, fma, inputs).differing, 0u);

  // The ends of the range come first.
  const auto ends = chosen_addends(fp16, 20);
  for (const std::uint64_t magnitude : {0x0000, 0x0001, 0x03ff, 0x0400, 0x3bff, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x7e00})
    for (const std::uint64_t sign : {0x0000, 0x8000})
      EXPECT_EQ(std::count(ends.begin(), ends.end(), magnitude | sign), 1) << std::hex << (magnitude | sign);
  EXPECT_LE(chosen_addends(bf16, 9999).size(), 340u);
  const auto many = chosen_addends(fp16, 64);
  EXPECT_EQ(std::set<std::uint64_t>(many.begin(), many.end()).size(), 64u);
  EXPECT_EQ(pairs_with(task_of(Operation::fma, fp16), many).count, std::uint64_t{64} << 32);
  EXPECT_EQ(number_of_chunks(pairs_with(task_of(Operation::fma, fp16), many)), (std::uint64_t{64} << 32) / chunk_size);
  EXPECT_THROW(pairs_with(task_of(Operation::add, fp16), many), std::invalid_argument);
  EXPECT_THROW(pairs_with(task_of(Operation::fma, fp32), {0}), std::invalid_argument);
}

TEST(VerifyInputs, SamplesAreTheSameInAnyPart) {
  const OperandSet inputs = sampled_operands(task_of(Operation::fma, fp16), 1000, 7);
  EXPECT_EQ(inputs.count, 1000u);
  std::vector<std::uint64_t> whole[3], part[3];
  for (auto& x : whole) x.resize(1000);
  for (auto& x : part) x.resize(10);
  inputs.fill(0, whole[0], whole[1], whole[2]);
  inputs.fill(500, part[0], part[1], part[2]);
  for (int k = 0; k < 3; ++k) {
    EXPECT_TRUE(std::equal(part[k].begin(), part[k].end(), whole[k].begin() + 500));
    EXPECT_GT(std::set<std::uint64_t>(whole[k].begin(), whole[k].end()).size(),
              400u);  // of 500 random ones, and the boundary's
  }
  EXPECT_TRUE(sampled_operands(task_of(Operation::add, e4m3), 1 << 24, 1).kind == Inputs::all);  // there are no more
}

std::vector<std::uint64_t> first_operands(const OperandSet& inputs, std::uint64_t count) {
  std::vector<std::uint64_t> a(count), b(count), c(count);
  inputs.fill(0, a, b, c);
  return a;
}

TEST(VerifyInputs, SamplesBeginWithBoundaryCases) {
  const OperandSet pairs = sampled_operands(task_of(Operation::add, fp16), 1 << 20, 1);
  EXPECT_EQ(pairs.boundary, pairs.points.size() * pairs.points.size());
  std::vector<std::uint64_t> a(pairs.boundary), b(pairs.boundary);
  pairs.fill(0, a, b, {});
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::size_t i = 0; i < a.size(); ++i) seen.emplace(a[i], b[i]);
  EXPECT_EQ(seen.size(), pairs.boundary);
  for (const std::uint64_t x :
       {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00})
    for (const std::uint64_t y : {0x0000, 0x8000, 0x0001, 0x7bff, 0xfc00, 0x7e00})
      EXPECT_TRUE(seen.count({x, y})) << std::hex << x << ' ' << y;

  const OperandSet few = sampled_operands(task_of(Operation::add, fp16), 1000, 1),
                   triples = sampled_operands(task_of(Operation::fma, fp16), 1 << 20, 1);
  EXPECT_EQ(few.boundary, 500u);
  EXPECT_EQ(triples.points.size(), 70u);
  EXPECT_EQ(triples.boundary, 70u * 70 * 70);
  for (const std::uint64_t x : first_operands(few, few.boundary))
    EXPECT_TRUE(std::binary_search(few.points.begin(), few.points.end(), x));
  EXPECT_GT(std::set<std::uint64_t>(pairs.points.begin(), pairs.points.end()).size(), 200u);
  std::vector<std::uint64_t> x(few.boundary), y(few.boundary);  // drawn, not the first ones
  few.fill(0, x, y, {});
  for (const auto& some : {x, y}) EXPECT_GT(std::set<std::uint64_t>(some.begin(), some.end()).size(), 200u);
  EXPECT_NE(x, y);
}

TEST(VerifyInputs, ConversionsBeginWithTheEdgesOfTheResultsFormat) {
  const OperandSet inputs = sampled_operands(task_of(Operation::convert, fp32, e4m3), 1 << 16, 1);
  EXPECT_EQ(inputs.boundary, inputs.points.size());
  const std::vector<std::uint64_t> a = first_operands(inputs, inputs.boundary);
  const std::set<std::uint64_t> seen(a.begin(), a.end());
  // A tie, its neighbours; the smallest subnormal and half of it; the largest value and where overflow begins.
  for (const float x : {1.0625f, std::nextafter(1.0625f, 0.0f), std::nextafter(1.0625f, 2.0f), 0x1p-9f, 0x1p-10f,
                        448.0f, 464.0f, std::nextafter(464.0f, 999.0f)})
    for (const float y : {x, -x}) EXPECT_TRUE(seen.count(std::bit_cast<std::uint32_t>(y))) << y;
  const OperandSet scales = sampled_operands(task_of(Operation::convert, fp32, e8m0), 1 << 16, 1);
  const std::vector<std::uint64_t> s = first_operands(scales, scales.boundary);
  for (const float x : {0x1p-127f, 0x1p-128f, 1.5f, 0x1p127f, 0x1.8p127f})
    EXPECT_EQ(std::count(s.begin(), s.end(), std::bit_cast<std::uint32_t>(x)), 1) << x;
}

TEST(VerifySubject, SaysWhichPathItTakes) {
  const std::string set = " (" + std::string(array_instruction_set()) + ")";
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, fp32, fp16)).description(), "encode" + set);
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, fp32, e8m0)).description(), "encode (scalar)");
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, fp64, bf16)).description(), "encode" + set);
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, bf16, fp16)).description(), "decode, encode" + set);
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, bf16, e8m0)).description(),
            "decode" + set + ", encode (scalar)");
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::convert, e8m0, bf16)).description(), "decode (scalar), encode" + set);
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::add, e4m3)).description(), "apply" + set);
  EXPECT_EQ(VerifiedFunctions(task_of(Operation::rem, e4m3)).description(), "scalar functions");
  Task payloads = task_of(Operation::add, fp16);
  payloads.rounding.nan = NanRule::propagate;
  EXPECT_EQ(VerifiedFunctions(payloads).description(), "apply (scalar)");
}

// What is found.

TEST(Verify, EveryOperationOfFp8AgreesWithTheOracle) {
  for (const FloatFormat& f : {e4m3, e5m2})
    for (const OperationInfo& row : operations) {
      if (row.arity == 3) continue;  // make_ledger.sh runs all triples
      const Task task = task_of(row.operation, f, row.operation == Operation::convert ? e3m2 : f,
                                RoundingMode::toward_positive);
      const OperandSet inputs = all_operands(task);
      const Comparison found = found_by(*make_reference(oracle_device(), task, inputs), task, inputs);
      EXPECT_EQ(found.compared, inputs.count) << task.description();
      EXPECT_EQ(found.differing, 0u) << task.description();
    }
}

TEST(Verify, StepsAreTheRationals) {
  for (const FloatFormat& to : {fp16, bf16, e4m3fnuz, e8m0})
    for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::toward_negative}) {
      Task task = task_of(Operation::convert, fp32, to, mode);
      const OperandSet sample = sampled_operands(task, 20'000, 3);
      const auto steps = make_reference(oracle_device(), task, all_operands(task)),
                 rationals = make_reference(oracle_device(), task, sample);
      ASSERT_NE(steps->knows_flags(), rationals->knows_flags());
      std::vector<std::uint64_t> a(sample.count), x(sample.count), y(sample.count);
      std::vector<Flags> flags(sample.count);
      sample.fill(0, a, {}, {});
      for (const std::uint64_t edge :
           {0x0ull, 0x8000'0000ull, 0x7f80'0000ull, 0xff80'0000ull, 0x7f80'0001ull, 0xffff'ffffull, 0x7f7f'ffffull})
        a[edge % 997] = edge;
      steps->run({a, {}, {}}, x, {});
      rationals->run({a, {}, {}}, y, flags);
      EXPECT_EQ(x, y) << task.description();
    }
}

TEST(Verify, FindsAndClassesWhatIsPlanted) {
  struct Case {
    std::string cls;
    Task task;
    Planted::Change change;
  };
  const auto when = [](bool condition, std::uint64_t code, Rounded right) {
    return condition ? Rounded{code, right.flags} : right;
  };
  Task saturating = task_of(Operation::convert, fp16, e4m3);
  const Case cases[] = {
      // 1 + 2^-4 lies halfway between 1 and 1.125.
      {"tie", task_of(Operation::convert, fp16, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x3c40, 0x39, r); }},
      {"subnormal", task_of(Operation::convert, fp16, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x1a00, 0x00, r); }},
      {"saturation", saturating, [&](const auto& x, Rounded r) { return when(x[0] == 0x7bff, 0x7e, r); }},
      {"sign-of-zero", task_of(Operation::add, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x80 && x[1] == 0, 0x80, r); }},
      {"nan", task_of(Operation::add, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x38 && x[1] == 0x38, 0x7f, r); }},
      {"one-ulp", task_of(Operation::add, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x38 && x[1] == 0x38, 0x41, r); }},
      {"other", task_of(Operation::add, e4m3),
       [&](const auto& x, Rounded r) { return when(x[0] == 0x38 && x[1] == 0x38, 0x38, r); }},
      {"flags", task_of(Operation::add, e4m3),
       [&](const auto& x, Rounded r) { return x[0] == 0x38 && x[1] == 0x38 ? Rounded{r.code, flag::inexact} : r; }},
      {"nan-sign", task_of(Operation::div, e5m2),
       [&](const auto& x, Rounded r) { return when(x[0] == 0 && x[1] == 0, 0xfe, r); }},
      {"nan-payload", task_of(Operation::div, e5m2),
       [&](const auto& x, Rounded r) { return when(x[0] == 0 && x[1] == 0, 0x7f, r); }},
  };
  for (const Case& c : cases) {
    const Comparison found = found_by(Planted(c.task, c.change), c.task, all_operands(c.task));
    EXPECT_EQ(found.classes, (std::map<std::string, std::uint64_t>{{c.cls, 1}})) << c.cls;
    ASSERT_EQ(found.witnesses.size(), 1u) << c.cls;
    EXPECT_EQ(found.witnesses[0].has_flags, c.cls == "flags");
  }
}

TEST(Verify, ClassesDoubleRounding) {
  // bf16 through fp16-like steps: fp32 -> fp16 -> e4m3 rounds twice.
  const Task task = task_of(Operation::convert, fp32, e4m3);
  const Planted twice(task, [](const auto& x, Rounded right) {
    return Rounded{convert(fp16, e4m3, {}, convert(fp32, fp16, {}, x[0]).code).code, right.flags};
  });
  // 1.0625 + 2^-20: above the midpoint of 1 and 1.125, which it becomes in fp16.
  const std::uint64_t operand = std::bit_cast<std::uint32_t>(1.0625f + 0x1p-20f);
  std::vector<std::uint64_t> code(1);
  std::vector<Flags> flags(1);
  twice.run({std::span(&operand, 1), {}, {}}, code, flags);
  Mismatch w;
  w.operands[0] = operand;
  w.arity = 1;
  w.emulated = evaluate(task, operand).code;
  w.device = code[0];
  ASSERT_NE(w.emulated, w.device);
  EXPECT_EQ(difference_class(task, w), "double-rounding");
}

TEST(Verify, KeepsTheFirstWitnessesInInputOrder) {
  const Task task = task_of(Operation::fma, e4m3);
  const Planted always(task, [](const auto&, Rounded right) { return Rounded{right.code ^ 1, right.flags}; });
  const OperandSet inputs = sampled_operands(task, 200'000, 5);  // four parts
  const Chunk chunk = verify_chunk(task, inputs, &always, 0);
  EXPECT_EQ(chunk.found.differing, 200'000u);
  std::vector<std::uint64_t> a(Comparison::most_witnesses), b(Comparison::most_witnesses),
      c(Comparison::most_witnesses);
  inputs.fill(0, a, b, c);
  ASSERT_EQ(chunk.found.witnesses.size(), Comparison::most_witnesses);
  for (std::size_t i = 0; i < Comparison::most_witnesses; ++i)
    EXPECT_EQ(chunk.found.witnesses[i].operands, (std::array<std::uint64_t, 3>{a[i], b[i], c[i]}));
}

#if defined(__x86_64__)
TEST(Verify, TheAdderOnVectorsIsTheAdder) {
  if (!independent_x86_device().available().yes) GTEST_SKIP() << independent_x86_device().available().reason;
  for (const FloatFormat& f : {fp16, bf16, parse_format("e6m9")})
    for (const Operation operation : {Operation::add, Operation::sub, Operation::mul, Operation::div})
      for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::toward_zero,
                                      RoundingMode::toward_positive, RoundingMode::toward_negative}) {
        Task task = task_of(operation, f, f, mode);
        const OperandSet inputs = sampled_operands(task, 30'000, 11);
        std::vector<std::uint64_t> a(inputs.count), b(inputs.count), wide(inputs.count), narrow(inputs.count);
        inputs.fill(0, a, b, {});
        make_reference(independent_x86_device(), task, inputs)->run({a, b, {}}, wide, {});
        for (std::size_t i = 0; i < inputs.count; i += 100)  // short runs go through the scalar instructions
          x86::adder_route().run(task, Operands{a, b, {}}.slice(i, 100), std::span(narrow).subspan(i, 100));
        for (std::size_t i = 0; i < inputs.count; ++i)
          ASSERT_EQ(wide[i], f.is_nan(narrow[i]) ? f.canonical_nan() : narrow[i])
              << task.description() << std::hex << ' ' << a[i] << ' ' << b[i];
      }
}

TEST(Verify, X86AnswersInWordsOf16Bits) {
  constexpr std::size_t count = 20'011;  // no number of whole vectors
  for (const Operation operation :
       {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::sqrt, Operation::fma})
    for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::toward_zero,
                                    RoundingMode::toward_positive, RoundingMode::toward_negative}) {
      const Task task = task_of(operation, fp16, fp16, mode);
      if (!x86::avx512fp16_route().supports(task).yes) GTEST_SKIP() << x86::avx512fp16_route().available().reason;
      const OperandSet sample = sampled_operands(task, count, 5);
      const auto reference = make_reference(independent_x86_device(), task, sample);
      std::vector<std::uint64_t> x[3], codes(count);
      std::vector<std::uint16_t> narrow[3], words(count);
      for (int k = 0; k < sample.arity; ++k) x[k].resize(count);
      sample.fill(0, x[0], x[1], x[2]);
      for (int k = 0; k < 3; ++k) narrow[k].assign(x[k].begin(), x[k].end());
      reference->run({x[0], x[1], x[2]}, codes, {});
      ASSERT_TRUE(reference->run_words(narrow[0], narrow[1], narrow[2], words)) << task.description();
      EXPECT_TRUE(std::equal(words.begin(), words.end(), codes.begin(), codes.end())) << task.description();
      EXPECT_GT(std::count(words.begin(), words.end(), fp16.canonical_nan()), 0) << task.description();
    }
}
#endif

/// The same in words of 16 bits, as well.
class PlantedInWords final : public Planted {
 public:
  using Planted::Planted;
  bool knows_flags() const override { return false; }
  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    ++widened;
    std::vector<Flags> flags(x.size());
    Planted::run(x, codes, flags);
  }
  bool run_words(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b, std::span<const std::uint16_t> c,
                 std::span<std::uint16_t> words) const override {
    std::vector<std::uint64_t> x(a.begin(), a.end()), y(b.begin(), b.end()), z(c.begin(), c.end()), codes(a.size());
    std::vector<Flags> flags(a.size());
    Planted::run({x, y, z}, codes, flags);
    std::copy(codes.begin(), codes.end(), words.begin());
    return true;
  }
  mutable std::atomic<int> widened = 0;
};

TEST(Verify, HearsReferencesInWordsOf16Bits) {
  const Task task = task_of(Operation::sqrt, fp16);
  const PlantedInWords right(task, [](const auto&, Rounded r) { return r; }),
      wrong(task, [](const auto& x, Rounded r) { return x[0] == 0x4400 ? Rounded{0x3c00, r.flags} : r; });
  const Comparison none = found_by(right, task, all_operands(task)), one = found_by(wrong, task, all_operands(task));
  EXPECT_EQ(none.compared, 65536u);
  EXPECT_EQ(none.differing, 0u);
  EXPECT_EQ(right.widened, 0);
  EXPECT_EQ(one.compared, 65536u);
  EXPECT_EQ(one.differing, 1u);
  EXPECT_EQ(wrong.widened, 1);  // the block that holds the difference
  ASSERT_EQ(one.witnesses.size(), 1u);
  EXPECT_EQ(one.witnesses[0].operands[0], 0x4400u);
}

TEST(Verify, X86SharesNoInstructionWithTheArrayFunctions) {
  if (!independent_x86_device().available().yes) GTEST_SKIP() << independent_x86_device().available().reason;
  for (const Operation operation : {Operation::add, Operation::mul, Operation::fma, Operation::sqrt})
    EXPECT_EQ(independent_x86_device().supports(task_of(operation, fp16)).route.find("F16C"), std::string::npos);
}

TEST(Verify, DifferencesOfNansAreFound) {
  /// The emulation as a device that gives another NaN for 0 / 0.
  class Odd final : public Device {
   public:
    std::string_view name() const override { return "odd"; }
    std::string description() const override { return "x86 with another NaN"; }
    Support available() const override { return Support::by("test"); }
    Support supports(const Task&) const override { return Support::by("test"); }
    NanRule nan_rule(const Task&) const override { return NanRule::propagate; }
    std::string_view independence() const override { return "emulation"; }
    void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
      for (std::size_t i = 0; i < x.size(); ++i) {
        results[i] = evaluate(task, x.a[i], x.b[i]).code;
        if (x.a[i] == 0 && x.b[i] == 0) results[i] ^= 0x80;
        if (x.a[i] == 0 && x.b[i] == 0x80) results[i] ^= 1;
      }
    }
  } odd;
  const Task task = task_of(Operation::div, e5m2);
  const TaskComparison nans = compare_nans(task, all_operands(task), odd);
  EXPECT_GT(nans.compared, 1000u);
  EXPECT_EQ(nans.classes, (std::map<std::string, std::uint64_t>{{"nan-payload", 1}, {"nan-sign", 1}}));
}

// Digests.

TEST(Digest, IsTheOneOfDesign) {
  // Three results of one chunk, in fp16: XXH3-64 of six bytes, XXH3-128 of that word (made with the xxhash package).
  const std::uint16_t words[] = {0x3c00, 0x7bff, 0x0001};
  const std::uint64_t chunk = chunk_digest(std::as_bytes(std::span(words)));
  EXPECT_EQ(cli::hex_word(chunk), "0x056dc3ef19ad0ec1");
  EXPECT_EQ(digest(std::span(&chunk, 1)), "d349197355a8e00b4f6a89261c4d6380");
}

TEST(Digest, IsOfTheScalarFunctionsResults) {
  const Task task = task_of(Operation::mul, e4m3);
  std::vector<std::uint8_t> results;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) results.push_back(static_cast<std::uint8_t>(evaluate(task, a, b).code));
  EXPECT_EQ(verify_chunk(task, all_operands(task), nullptr, 0).digest, chunk_digest(std::as_bytes(std::span(results))));
}

Verification run(const Task& task, const OperandSet& inputs, int threads, std::vector<std::uint64_t> todo) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::task_arena arena(threads);
  Verification v;
  v.task = task;
  v.operands = inputs;
  v.reference = &oracle_device();
  const auto reference = make_reference(*v.reference, task, inputs);
  arena.execute([&] {
    verify_chunks(task, inputs, *reference, todo, {},
                  [&](Chunk chunk) { v.chunks.emplace(chunk.index, std::move(chunk)); });
  });
  return v;
}

TEST(Digest, IsTheSameOnAnyNumberOfThreads) {
  const Task task = task_of(Operation::convert, fp32, e4m3);
  OperandSet inputs = all_operands(task);
  inputs.count = 3 * chunk_size + 12'345;  // the last chunk is short
  const Verification one = run(task, inputs, 1, {0, 1, 2, 3}), two = run(task, inputs, 2, {0, 1, 2, 3});
  EXPECT_TRUE(one.complete());
  EXPECT_EQ(one.digest(), two.digest());
  EXPECT_EQ(one.found(), two.found());
  EXPECT_EQ(one.found().compared, inputs.count);
}

}  // namespace verify_test
