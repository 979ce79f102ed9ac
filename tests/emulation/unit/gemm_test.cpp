// mma_gemm: every output equals the interpreter's, for every unit, on random and adversarial matrices.
#include "unit_cases.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/gemm.hpp>
#include <halfulp/emulation/unit/rules.hpp>

#include <hwy/targets.h>
#include <tbb/global_control.h>

#include <cmath>

namespace halfulp {
namespace gemm_test {

using check::Random;
using unit_cases::Kind, unit_cases::Matrices, unit_cases::expected;

void compare(const MatrixUnit& u, std::size_t m, std::size_t n, std::size_t k, Kind kind, Random& random,
             std::size_t& compared) {
  const Matrices x(u, m, n, k, kind, random);
  std::vector<std::uint64_t> d(m * n);
  mma_gemm(u, x.operands, std::span(d));
  const auto want = expected(u, x);
  compared += d.size();
  for (std::size_t i = 0; i < d.size(); ++i)
    ASSERT_EQ(d[i], want[i]) << u.name << ' ' << m << 'x' << n << 'x' << k << " kind " << static_cast<int>(kind)
                             << " output " << i << std::hex << " got " << d[i] << " want " << want[i] << " c "
                             << x.c[i];
}

/// Calls f once for each instruction set of this CPU.
template <class F>
void on_every_instruction_set(F f) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Gemm, EqualsTheInterpreterForEveryUnit) {
  std::size_t on_vectors = 0, compared = 0;
  on_every_instruction_set([&] {
    Random random{1};
    for (const MatrixUnit& u : matrix_units()) {
      on_vectors += has_vector_body(u);
      for (int kind = 0; kind < static_cast<int>(Kind::count); ++kind)
        compare(u, 5, 19, static_cast<std::size_t>(2 * u.k + 1), static_cast<Kind>(kind), random, compared);
    }
  });
  EXPECT_GT(on_vectors, 100u);
  EXPECT_GT(compared, 50'000u);
}

TEST(Gemm, EqualsTheInterpreterForRandomRules) {
  std::size_t compared = 0, on_vectors = 0;
  on_every_instruction_set([&] {
    Random random{7};
    for (int i = 0; i < 300; ++i) {
      MatrixUnit u = matrix_units()[random() % matrix_units().size()];
      if (u.rule != &rules::fused) continue;
      u.sum.length = 1 << random() % 7;
      u.k = u.sum.length << random() % 2;
      u.sum.alignment_bits = 1 + static_cast<int>(random() % 29);
      u.sum.least_exponent = random() & 1 ? FusedSum::no_least_exponent : -static_cast<int>(random() % 150);
      u.sum.rounding = random() & 1 ? RoundingMode::toward_zero : RoundingMode::nearest_even;
      u.sum.kept.fraction_bits = u.accumulator.fraction_bits - static_cast<int>(random() % 4);
      u.sum.grouping = random() & 1 ? Grouping::strided : Grouping::consecutive;
      u.sum.descending = random() & 1;
      if (u.scaled() && u.depth() % u.scale_block != 0) continue;
      on_vectors += has_vector_body(u);
      compare(u, 4, 16, static_cast<std::size_t>(u.k + 3),
              static_cast<Kind>(random() % static_cast<std::uint64_t>(Kind::count)), random, compared);
    }
  });
  EXPECT_GT(on_vectors, 100u);
}

// The interpreter computes what floats cannot carry or 32-bit integers cannot count.
TEST(Gemm, EqualsTheInterpreterForUnusualUnits) {
  std::size_t compared = 0;
  Random random{11};
  for (const char* name : {"hopper.mma.bf16.fp32", "hopper.wgmma.e4m3.fp32", "hopper.mma.fp16.fp16",
                           "hopper.mma.e5m2.fp32", "blackwell.tcgen05.nvfp4.fp32"}) {
    const MatrixUnit& base = find_unit(name);
    for (const int least : {127, 128, 129, 200, 1100, 16384}) {
      MatrixUnit u = base;
      u.sum.least_exponent = least;
      for (int i = 0; i < 4; ++i)
        compare(u, 4, 16, static_cast<std::size_t>(u.k), static_cast<Kind>(i), random, compared);
    }
    for (const char* accumulator : {"e9m10", "e11m10", "e8m10b20", "e8m23b120", "e8m10b200", "e8m15", "e8m12"}) {
      MatrixUnit u = base;
      u.accumulator = u.sum.kept = parse_format(accumulator);
      u.sum.nan = u.accumulator.magnitude_mask();
      ASSERT_EQ(refusal(u), "") << accumulator;
      for (int i = 0; i < 5; ++i)
        compare(u, 4, 16, static_cast<std::size_t>(u.k), static_cast<Kind>(i), random, compared);
    }
    if (base.scaled() || base.rule != &rules::fused) continue;
    for (const char* operand : {"e9m6", "e11m10", "e8m7b240"}) {
      MatrixUnit u = base;
      u.a = u.b = parse_format(operand);
      ASSERT_EQ(refusal(u), "") << operand;
      for (int i = 0; i < 5; ++i)
        compare(u, 4, 16, static_cast<std::size_t>(u.k), static_cast<Kind>(i), random, compared);
    }
  }
  EXPECT_GT(compared, 10'000u);
}

TEST(Gemm, IsTheSameOnAnyNumberOfThreadsAndOfAnyWidthOfWords) {
  const MatrixUnit& u = find_unit("hopper.wgmma.e4m3.fp32");
  Random random{3};
  const Matrices x(u, 70, 70, 96, Kind::near_one, random);
  std::vector<std::uint64_t> one(70 * 70), two(70 * 70);
  {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
    mma_gemm(u, x.operands, std::span(one));
  }
  mma_gemm(u, x.operands, std::span(two));
  EXPECT_EQ(one, two);

  const std::vector<std::uint8_t> a(x.a.begin(), x.a.end()), b(x.b.begin(), x.b.end());
  const std::vector<std::uint32_t> c(x.c.begin(), x.c.end());
  std::vector<std::uint32_t> narrow(70 * 70);
  mma_gemm(u, {70, 70, 96, std::span(a), std::span(b), std::span(c)}, std::span(narrow));
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), one.begin(), one.end()));
}

// CDNA3's FP8 drops an addend below 2^-25 of the largest product. What it keeps is seen where products cancel.
TEST(Gemm, EqualsTheInterpreterForSmallAddends) {
  const MatrixUnit& u = find_unit("cdna3.mfma.e4m3fnuz.fp32");
  const auto code = [](const FloatFormat& f, double x) {
    return evaluate({Operation::convert, fp64, f, {}}, std::bit_cast<std::uint64_t>(x)).code;
  };
  Random random{9};
  Matrices x(u, 1, 24, 3, Kind::near_one, random);
  x.a = {code(u.a, 1), code(u.a, -1), code(u.a, 0.5)};
  std::fill(x.b.begin(), x.b.end(), code(u.b, 1));
  for (int i = 0; i < 24; ++i)
    x.c[static_cast<std::size_t>(i)] = code(u.accumulator, (i % 2 ? 1.5 : -1.5) * std::ldexp(1.0, -20 - i / 2));
  x.operands = {1, 24, 3, std::span(x.a), std::span(x.b), std::span(x.c)};
  std::vector<std::uint64_t> d(24);
  mma_gemm(u, x.operands, std::span(d));
  EXPECT_EQ(d, expected(u, x));
}

// A product beyond the floats is an infinity on CDNA3, which meets one of C.
TEST(Gemm, EqualsTheInterpreterForInfiniteAddends) {
  Random random{13};
  for (const char* name :
       {"cdna3.mfma.bf16.fp32", "cdna3.mfma.e5m2fnuz.fp32", "cdna1.mfma.bf16.fp32", "hopper.mma.bf16.fp32"}) {
    const MatrixUnit& u = find_unit(name);
    Matrices x(u, 2, 16, 3, Kind::huge, random);
    for (std::size_t i = 0; i < x.a.size(); ++i) x.a[i] = u.a.max_finite() | (i < 3 ? u.a.sign_mask() : 0);
    std::fill(x.b.begin(), x.b.end(), u.b.max_finite());
    for (std::size_t i = 0; i < x.c.size(); ++i)
      x.c[i] = u.accumulator.infinity() | (i % 2 ? u.accumulator.sign_mask() : 0);
    x.operands = {2, 16, 3, std::span(x.a), std::span(x.b), std::span(x.c)};
    std::vector<std::uint64_t> d(32);
    mma_gemm(u, x.operands, std::span(d));
    EXPECT_EQ(d, expected(u, x)) << name;
  }
}

// The interpreter computes rows and columns with NaN, and reads C, when D already holds other results.
TEST(Gemm, WritesDOverC) {
  Random random{5};
  for (const char* name : {"hopper.mma.fp16.fp32", "blackwell.tcgen05.nvfp4.fp32", "cdna1.mfma.fp16.fp32"}) {
    const MatrixUnit& u = find_unit(name);
    for (const Kind kind : {Kind::near_some, Kind::edges}) {
      Matrices x(u, 20, 20, static_cast<std::size_t>(u.k), kind, random);
      const auto want = expected(u, x);
      mma_gemm(u, x.operands, std::span(x.c));
      EXPECT_EQ(x.c, want) << name;
    }
  }
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  const MatrixUnit& u = find_unit("hopper.wgmma.e4m3.fp32");
  const std::vector<std::uint64_t> four(4, 0x38), wide(4, 0x138), three(3);
  std::vector<std::uint64_t> d(4, 7);
  const auto refused = [&](const GemmOperands& x, std::span<std::uint64_t> to) {
    EXPECT_THROW(mma_gemm(u, x, to), std::invalid_argument);
    EXPECT_EQ(d, std::vector<std::uint64_t>(4, 7));
  };
  refused({2, 2, 2, std::span(four), std::span(three), std::span(four)}, d);
  refused({2, 2, 2, std::span(wide), std::span(four), std::span(four)}, d);
  refused({2, 2, 2, std::span(four), std::span(four), std::span(four)}, std::span(d).first(3));
  refused({2, 2, 0, {}, {}, std::span(four)}, d);
  refused({2, 2, 2, std::span(four), std::span(four), std::span(four), std::span(four), std::span(four)}, d);
  const std::vector<std::uint16_t> halves(4);
  refused({2, 2, 2, std::span(four), std::span(four), std::span(halves)}, d);  // C of fp32 in 16-bit words
  refused({2, 2, std::size_t{1} << 63, {}, {}, std::span(four)}, d);           // 2 k is 0 in 64 bits
  mma_gemm(u, {0, 2, 2, {}, std::span(four), {}}, std::span(d).first(0));
}

}  // namespace gemm_test
}  // namespace halfulp
