// Matrix units: examples whose results follow from the rules by hand, and properties of the table.
#include "check.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/gemm.hpp>
#include <halfulp/emulation/unit/rules.hpp>

#include <cmath>
#include <set>

namespace halfulp {
namespace units_test {

std::uint64_t word(const FloatFormat& f, double x) {
  return code_word(f, convert(fp64, f, {}, std::bit_cast<std::uint64_t>(x)).code);
}
std::vector<std::uint64_t> words(const FloatFormat& f, const std::vector<double>& x) {
  std::vector<std::uint64_t> result;
  for (const double v : x) result.push_back(word(f, v));
  return result;
}

/// The value of D for operand values.
double result(std::string_view name, const std::vector<double>& a, const std::vector<double>& b, double c,
              const std::vector<double>& scale_a = {}, const std::vector<double>& scale_b = {}) {
  const MatrixUnit& u = find_unit(name);
  const auto wa = words(u.a, a), wb = words(u.b, b), sa = words(u.scale, scale_a), sb = words(u.scale, scale_b);
  return u.accumulator.value(mma(u, {wa, wb, sa, sb}, word(u.accumulator, c)));
}

// The example of table 8 of arXiv 2511.10909: one sum with as many answers as ways to align it.
TEST(Units, OneSumOnEveryArchitecture) {
  const std::vector<double> a{-8192, -.5, -.25, -.125}, b{1024, 1, 1, 1};
  const auto d = [&](std::string_view unit) { return result(unit, a, b, 8388608); };
  EXPECT_EQ(d("volta.mma.fp16.fp32"), 0);
  for (const auto* unit : {"turing.mma.fp16.fp32", "ampere.mma.fp16.fp32", "ada.mma.fp16.fp32"})
    EXPECT_EQ(d(unit), -.5) << unit;
  for (const auto* unit : {"hopper.mma.fp16.fp32", "hopper.wgmma.fp16.fp32", "blackwell.tcgen05.e5m2.fp32"})
    EXPECT_EQ(d(unit), -.75) << unit;
  for (const auto* unit : {"hopper.wgmma.e5m2.fp32", "ada.mma.e5m2.fp32"}) EXPECT_EQ(d(unit), 0) << unit;
  for (const auto* unit : {"hopper.mma.fp64.fp64", "cdna1.mfma.fp16.fp32"}) EXPECT_EQ(d(unit), -.875) << unit;
}

TEST(Units, NamesOfBlockFormatsAreUnderstood) {
  for (const auto& [said, meant] : {std::pair("blackwell.tcgen05.mxfp8e4m3.fp32", "blackwell.tcgen05.mxe4m3.fp32"),
                                    std::pair("blackwell.tcgen05.mxfp8.fp32", "blackwell.tcgen05.mxe4m3.fp32"),
                                    std::pair("blackwell.tcgen05.mxfp6e2m3.fp32", "blackwell.tcgen05.mxe2m3.fp32"),
                                    std::pair("blackwell.tcgen05.mxfp4e2m1.fp32", "blackwell.tcgen05.mxe2m1.fp32"),
                                    std::pair("blackwell.tcgen05.mxfp4.fp32", "blackwell.tcgen05.mxfp4.fp32"),
                                    std::pair("Hopper.mma.FP16.fp32", "hopper.mma.fp16.fp32")})
    EXPECT_EQ(find_unit(said).name, meant);
}

/// A block of scales may be longer than a step: two steps of 8 products share the scale of 16.
TEST(Units, AScaleMayCoverManySteps) {
  MatrixUnit wide = find_unit("blackwell.tcgen05.mxe4m3.fp32"), narrow = wide;
  wide.sum.length = wide.k = 8, wide.scale_block = 16;
  ASSERT_EQ(refusal(wide), "");
  const std::vector<std::uint64_t> ones = words(e4m3, std::vector<double>(20, 1.0)), scales{127, 129}, one{127, 127};
  // 16 products of scale 1 and four of scale 4.
  EXPECT_EQ(fp32.value(mma(wide, {ones, ones, scales, one}, 0)), 32);
  narrow.scale_block = 12;
  EXPECT_NE(refusal(narrow), "");
}

TEST(Units, ProductsAreNotNormalised) {
  const double c = std::ldexp(1, -25);
  EXPECT_EQ(result("hopper.mma.fp16.fp32", {1.5, -1.5}, {1.5, 1.5}, c), c);  // exponents 0: c is the last bit kept
  EXPECT_EQ(result("hopper.mma.fp16.fp32", {2.25, -2.25}, {1, 1}, c), 0);    // exponents 1: c falls off
}

TEST(Units, HoppersFp8MmaIsNotItsFp8Unit) {
  const std::vector<double> ones(32, 1.0);
  EXPECT_EQ(result("hopper.wgmma.e4m3.fp32", {1}, {1}, std::ldexp(1, -14)), 1);
  EXPECT_EQ(result("hopper.mma.e4m3.fp32", {1}, {1}, std::ldexp(1, -14)), 1 + std::ldexp(1, -14));
  EXPECT_EQ(result("hopper.wgmma.e4m3.fp32", ones, ones, std::ldexp(1, -9)), 32);
  EXPECT_EQ(result("hopper.mma.e4m3.fp32", ones, ones, std::ldexp(1, -9)), 32.001953125);
}

TEST(Units, PaddingAnInstructionWithZerosHidesTheSignOfZero) {
  // 2^-1074 - 2^-1000 * 2^-1000 is -0 in a chain; an H100 gives +0, because the fourth product, of zeros, is added too.
  const MatrixUnit& u = find_unit("hopper.mma.fp64.fp64");
  const double tiny = std::ldexp(1, -1000);
  const auto a = words(fp64, {0, 0, -tiny}), b = words(fp64, {0, 0, tiny});
  const std::uint64_t negative_zero = std::uint64_t{1} << 63;
  EXPECT_EQ(mma(u, {a, b, {}, {}}, negative_zero), 0u);
  const auto whole_a = words(fp64, {-tiny, -tiny, -tiny, -tiny}), whole_b = words(fp64, {tiny, tiny, tiny, tiny});
  EXPECT_EQ(mma(u, {whole_a, whole_b, {}, {}}, negative_zero), negative_zero);
  const MatrixUnit& chain = find_unit("cdna1.mfma.fp32.fp32");  // of four products too, on vectors
  for (const std::size_t k : {std::size_t{3}, std::size_t{4}}) {
    const std::vector<std::uint32_t> x(k, 0x8000'0000), y(k, 0x3f80'0000), c{0x8000'0000};
    std::vector<std::uint32_t> d(1);
    GemmOperands operands;
    operands.a = std::span(x), operands.b = std::span(y), operands.c = std::span(c);
    operands.m = operands.n = 1, operands.k = k;
    mma_gemm(chain, operands, std::span(d));
    EXPECT_EQ(d[0], k == 4 ? 0x8000'0000u : 0u) << k;
  }
}

TEST(Units, TheLeastExponentHidesSmallProducts) {
  // One product of 2^-24 gives 0001. A second product of 2^-46, 2^-47 or 2^-48 pushes a tie up, if the unit keeps its
  // bit.
  const auto code = [](FusedSum sum, double x, double y) {
    MatrixUnit u = find_unit("hopper.mma.fp16.fp16");
    u.sum.least_exponent = sum.least_exponent;
    const auto a = words(fp16, {std::ldexp(1, -14), x}), b = words(fp16, {std::ldexp(1, -11), y});
    return mma(u, {a, b, {}, {}}, 0);
  };
  for (const auto& [least, seen] : {std::pair{-21, 1}, std::pair{-22, 2}, std::pair{-133, 3}})
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(code({.least_exponent = least}, std::ldexp(1, -24), std::ldexp(1, -22 - i)), i < seen)
          << least << ' ' << i;
}

TEST(Units, SpecialValues) {
  const double inf = INFINITY;
  const auto code = [](std::string_view name, std::vector<double> a, std::vector<double> b, double c) {
    const MatrixUnit& u = find_unit(name);
    const auto wa = words(u.a, a), wb = words(u.b, b);
    return mma(u, {wa, wb, {}, {}}, word(u.accumulator, c));
  };
  for (const auto& [unit, nan, infinity] : {std::tuple{"hopper.mma.fp16.fp32", 0x7fff'ffffu, 0x7f80'0000u},
                                            std::tuple{"hopper.mma.fp16.fp16", 0x7fffu, 0x7c00u}}) {
    EXPECT_EQ(code(unit, {inf}, {0}, 1), nan);
    EXPECT_EQ(code(unit, {inf, -inf}, {1, 1}, 1), nan);
    EXPECT_EQ(code(unit, {1}, {1}, NAN), nan);
    EXPECT_EQ(code(unit, {inf}, {-1}, inf), nan);
    EXPECT_EQ(code(unit, {inf}, {2}, 1), infinity);
    EXPECT_EQ(code(unit, {-0.0}, {1}, -0.0), 0u);
  }
  // Sums out of range are Inf although results are truncated.
  EXPECT_EQ(code("hopper.mma.bf16.fp32", {1e38, 1e38}, {2, 2}, 3e38), 0x7f80'0000u);
  // The low 13 bits of a TF32 operand are ignored, so a NaN whose payload lies there reads as Inf.
  const MatrixUnit& u = find_unit("hopper.mma.tf32.fp32");
  const std::vector<std::uint64_t> a{0x7f80'0001}, b{0x3f80'1fff};
  EXPECT_EQ(mma(u, {a, b, {}, {}}, 0), 0x7f80'0000u);
}

TEST(Units, AUnitHasOneNan) {
  MatrixUnit u = find_unit("hopper.mma.e4m3.fp32");
  u.sum.nan = 0x7fc0'0001;
  const std::vector<std::uint64_t> nan{0x7f}, one{0x38};
  EXPECT_EQ(mma(u, {nan, one, {}, {}}, 0), 0x7fc0'0001u);
  EXPECT_EQ(mma(u, {one, one, {}, {}}, 0xffff'ffff), 0x7fc0'0001u);
  u = find_unit("x86.avx512.bf16.fp32");  // it propagates NaNs, so the NaN cannot be chosen
  u.sum.nan = 0x7fff'ffff;
  EXPECT_NE(refusal(u), "");
}

TEST(Units, ExactSumsStayWithinTheirIntegers) {
  MatrixUnit u = find_unit("cdna1.mfma.fp16.fp32");
  u.a = u.b = parse_format("e10m4b150");
  EXPECT_NE(refusal(u), "");
}

TEST(Units, ScalesMultiplyProducts) {
  const std::vector<double> a(32, 1.5), b(32, 2.0);
  EXPECT_EQ(result("blackwell.tcgen05.mxe2m1.fp32", a, b, 0, {0.25}, {8}), 192);
  const std::vector<double> a64(64, 6), b64(64, 6);
  EXPECT_EQ(result("blackwell.tcgen05.mxfp4.fp32", a64, b64, 0, {1, 2}, {1, 0.5}), 64 * 36);
  EXPECT_EQ(result("blackwell.tcgen05.nvfp4.fp32", a64, b64, 1, {1.5, 1, 0, 1}, {1.75, 1, 5, 1}),
            16 * 36 * (1.5 * 1.75 + 2) + 1);
  EXPECT_TRUE(std::isnan(result("blackwell.tcgen05.mxe4m3.fp32", a, b, 0, {NAN}, {1})));
}

TEST(Units, PartsOfAStepAreFilledWithZeros) {
  for (const MatrixUnit& u : matrix_units()) {
    const auto depth = static_cast<std::size_t>(u.depth());
    const std::vector<std::uint64_t> a(1, word(u.a, 2)), b(1, word(u.b, 3));
    std::vector<std::uint64_t> long_a(depth), long_b(depth), one(1, word(u.scale, 1)), ones;
    long_a[0] = a[0], long_b[0] = b[0];
    if (u.scaled()) ones.assign(depth / static_cast<std::size_t>(u.scale_block), one[0]);
    else one.clear();
    const std::uint64_t c = word(u.accumulator, 1);
    EXPECT_EQ(mma(u, {a, b, one, one}, c), word(u.accumulator, 7)) << u.name;
    EXPECT_EQ(mma(u, {long_a, long_b, ones, ones}, c), word(u.accumulator, 7)) << u.name;
  }
}

TEST(Units, TheTableIsSound) {
  std::set<std::string> names;
  for (const MatrixUnit& u : matrix_units()) {
    EXPECT_EQ(refusal(u), "") << u.name;
    EXPECT_TRUE(names.insert(u.name).second) << u.name;
    EXPECT_EQ(u.k % u.depth(), 0) << u.name;
    EXPECT_FALSE(u.evidence.empty() || u.source.empty() || u.instruction.empty()) << u.name;
    EXPECT_EQ(u.instruction.find('{'), std::string::npos) << u.instruction;
    EXPECT_EQ(&find_unit(u.name), &u);
  }
  EXPECT_THROW(find_unit("hopper.mma.fp16.fp23"), std::invalid_argument);
}

TEST(Units, LengthsMustFit) {
  const MatrixUnit& u = find_unit("hopper.mma.fp16.fp32");
  const std::vector<std::uint64_t> two(2), three(3);
  EXPECT_THROW(mma(u, {two, three, {}, {}}, 0), std::invalid_argument);
  EXPECT_THROW(mma(u, {{}, {}, {}, {}}, 0), std::invalid_argument);
  EXPECT_THROW(mma(u, {two, two, two, two}, 0), std::invalid_argument);
  EXPECT_THROW(mma(find_unit("blackwell.tcgen05.nvfp4.fp32"), {two, two, {}, {}}, 0), std::invalid_argument);
}

}  // namespace units_test
}  // namespace halfulp
