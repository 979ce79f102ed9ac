// The table "what happens at the edges", row by row, with literal expected values.
#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <ostream>

namespace halfulp {

void PrintTo(const Rounded& r, std::ostream* out) { *out << std::hex << r.code << " flags " << int{r.flags}; }

}  // namespace halfulp

namespace edges_test {

using namespace halfulp;

constexpr Flags inexact = flag::inexact, underflow = flag::underflow | inexact, overflow = flag::overflow | inexact,
                by_zero = flag::divide_by_zero, invalid_flag = flag::invalid;

Rounding in(RoundingMode mode, Overflow rule = Overflow::ieee) {
  Rounding r;
  r.mode = mode;
  r.overflow = rule;
  return r;
}
const Rounding nearest, saturating = in(RoundingMode::nearest_even, Overflow::saturate);
Rounding with(NanRule rule) {
  Rounding r;
  r.nan = rule;
  return r;
}
constexpr RoundingMode nearest_modes[] = {RoundingMode::nearest_even, RoundingMode::nearest_away,
                                          RoundingMode::nearest_to_zero};

using enum RoundingMode;

TEST(Edges, overflow_by_mode_where_the_format_has_infinity) {
  // 65504 + 65504 and its negative in fp16.
  for (const RoundingMode mode : nearest_modes) {
    EXPECT_EQ(evaluate(Operation::add, fp16, in(mode), 0x7bff, 0x7bff), (Rounded{0x7c00, overflow}));
    EXPECT_EQ(evaluate(Operation::add, fp16, in(mode), 0xfbff, 0xfbff), (Rounded{0xfc00, overflow}));
  }
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_zero), 0x7bff, 0x7bff), (Rounded{0x7bff, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_zero), 0xfbff, 0xfbff), (Rounded{0xfbff, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_positive), 0x7bff, 0x7bff), (Rounded{0x7c00, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_positive), 0xfbff, 0xfbff), (Rounded{0xfbff, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_negative), 0x7bff, 0x7bff), (Rounded{0x7bff, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(toward_negative), 0xfbff, 0xfbff), (Rounded{0xfc00, overflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, in(to_odd), 0x7bff, 0x7bff), (Rounded{0x7bff, overflow}));
  // To odd stays at max even where its code is even: 448 = 7E in E4M3.
  EXPECT_EQ(evaluate(Operation::add, e4m3, in(to_odd), 0x7e, 0x7e), (Rounded{0x7e, overflow}));
}

TEST(Edges, overflow_is_nan_without_infinity_and_max_without_either) {
  EXPECT_EQ(evaluate(Operation::add, e4m3, nearest, 0x7e, 0x7e), (Rounded{0x7f, overflow}));       // fn
  EXPECT_EQ(evaluate(Operation::add, e4m3fnuz, nearest, 0x7f, 0x7f), (Rounded{0x80, overflow}));   // fnuz
  EXPECT_EQ(evaluate(Operation::add, p3109k8p3, nearest, 0x7e, 0x7e), (Rounded{0x7f, overflow}));  // P3109: Inf
  EXPECT_EQ(evaluate(Operation::add, e2m1, nearest, 0x7, 0x7), (Rounded{0x7, overflow}));          // MX: 6
  EXPECT_EQ(evaluate(Operation::add, e2m1, nearest, 0xf, 0xf), (Rounded{0xf, overflow}));
}

TEST(Edges, saturation) {
  EXPECT_EQ(evaluate(Operation::add, fp16, saturating, 0x7bff, 0x7bff), (Rounded{0x7bff, overflow}));
  EXPECT_EQ(evaluate(Operation::mul, e5m2, saturating, 0xfb, 0x7b), (Rounded{0xfb, overflow}));
  EXPECT_EQ(convert(fp16, e5m2, saturating, 0x7c00), (Rounded{0x7b, overflow}));                // Inf -> 57344
  EXPECT_EQ(convert(fp16, e4m3, saturating, 0xfc00), (Rounded{0xfe, overflow}));                // -Inf -> -448
  EXPECT_EQ(convert(fp16, e4m3, saturating, 0x7e00), (Rounded{0x7f, 0}));                       // NaN stays NaN
  EXPECT_EQ(evaluate(Operation::add, fp16, saturating, 0x7c00, 0x3c00), (Rounded{0x7c00, 0}));  // Inf + 1 is exact
}

TEST(Edges, overflow_begins_where_the_result_rounded_without_a_top_exceeds_max) {
  // E4M3: 448 is the last value, 480 would be next. 464, the midpoint, ties to the even 448.
  EXPECT_EQ(encode(e4m3, nearest, 464), (Rounded{0x7e, inexact}));
  EXPECT_EQ(encode(e4m3, nearest, 464.0000001), (Rounded{0x7f, overflow}));
  EXPECT_EQ(encode(e4m3, in(nearest_away), 464), (Rounded{0x7f, overflow}));
  EXPECT_EQ(encode(e4m3, in(nearest_to_zero), 464), (Rounded{0x7e, inexact}));
  EXPECT_EQ(encode(e4m3, in(toward_zero), 479.9), (Rounded{0x7e, inexact}));
  EXPECT_EQ(encode(e4m3, in(toward_zero), 480), (Rounded{0x7e, overflow}));
  EXPECT_EQ(encode(e4m3, in(toward_positive), 448.1), (Rounded{0x7f, overflow}));
  EXPECT_EQ(encode(e5m2, nearest, 61439), (Rounded{0x7b, inexact}));
  EXPECT_EQ(encode(e5m2, nearest, 61440), (Rounded{0x7c, overflow}));  // 57344 is odd
  EXPECT_EQ(encode(fp16, nearest, 65519), (Rounded{0x7bff, inexact}));
  EXPECT_EQ(encode(fp16, nearest, 65520), (Rounded{0x7c00, overflow}));
}

TEST(Edges, nan_for_a_format_without_one) {
  EXPECT_EQ(convert(fp16, e2m1, nearest, 0x7e00), (Rounded{0x07, invalid_flag}));
  EXPECT_EQ(convert(fp16, e2m1, nearest, 0xfe00), (Rounded{0x07, invalid_flag}));
  EXPECT_EQ(convert(fp16, e3m2, nearest, 0x7e00), (Rounded{0x1f, invalid_flag}));
  EXPECT_EQ(convert(e4m3, e2m3, nearest, 0xff), (Rounded{0x1f, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::div, e2m1, nearest, 0, 0), (Rounded{0x07, invalid_flag}));
}

TEST(Edges, formats_without_minus_zero) {
  for (const FloatFormat& f : {e4m3fnuz, e5m2fnuz, e4m3b11fnuz, p3109k8p3, p3109k8p4}) {
    EXPECT_EQ(convert(fp16, f, nearest, 0x8000), (Rounded{0, 0}));
    EXPECT_EQ(evaluate(Operation::mul, f, nearest, 0x81, 0x01), (Rounded{0, underflow}));  // underflows from below
    EXPECT_EQ(evaluate(Operation::sub, f, in(toward_negative), 0x01, 0x01), (Rounded{0, 0}));
    EXPECT_EQ(encode(f, nearest, -1e-30), (Rounded{0, underflow}));
    Rounding daz;
    daz.flush_inputs = true;
    EXPECT_EQ(convert(f, fp16, daz, 0x81), (Rounded{0, 0}));  // a flushed operand is +0 here too
  }
  Rounding daz;
  daz.flush_inputs = true;
  EXPECT_EQ(evaluate(Operation::div, p3109k8p3, daz, 0x40, 0x81), (Rounded{0x7f, by_zero}));   // 1 / +0
  EXPECT_EQ(evaluate(Operation::div, fp16, daz, 0x3c00, 0x8001), (Rounded{0xfc00, by_zero}));  // 1 / -0
}

TEST(Edges, e8m0) {
  EXPECT_FALSE(refusal({Operation::add, e8m0, e8m0, nearest}).empty());
  EXPECT_FALSE(refusal({Operation::round_to_integral, e8m0, e8m0, nearest}).empty());
  EXPECT_TRUE(refusal({Operation::convert, fp32, e8m0, nearest}).empty());
  EXPECT_EQ(encode(e8m0, nearest, 1), (Rounded{0x7f, 0}));
  EXPECT_EQ(encode(e8m0, nearest, 1.4), (Rounded{0x7f, inexact}));
  EXPECT_EQ(encode(e8m0, nearest, 1.6), (Rounded{0x80, inexact}));
  EXPECT_EQ(encode(e8m0, nearest, 1.5), (Rounded{0x80, inexact}));  // a tie: the even code
  EXPECT_EQ(encode(e8m0, nearest, 3), (Rounded{0x80, inexact}));
  EXPECT_EQ(encode(e8m0, in(toward_positive), 1.01), (Rounded{0x80, inexact}));
  EXPECT_EQ(encode(e8m0, in(toward_zero), 1.99), (Rounded{0x7f, inexact}));
  EXPECT_EQ(encode(e8m0, nearest, 0x1p-127), (Rounded{0, 0}));
  EXPECT_EQ(encode(e8m0, nearest, 0x1p-140), (Rounded{0, underflow}));
  EXPECT_EQ(encode(e8m0, nearest, 0), (Rounded{0, underflow}));
  EXPECT_EQ(encode(e8m0, nearest, 0x1p127), (Rounded{0xfe, 0}));
  EXPECT_EQ(encode(e8m0, nearest, 0x1p128), (Rounded{0xff, overflow}));
  EXPECT_EQ(encode(e8m0, in(toward_zero), 0x1p128), (Rounded{0xff, overflow}));
  EXPECT_EQ(convert(fp32, e8m0, nearest, 0x7fc00000), (Rounded{0xff, 0}));         // NaN
  EXPECT_EQ(convert(fp32, e8m0, nearest, 0x7f800000), (Rounded{0xff, overflow}));  // Inf
  EXPECT_EQ(convert(fp32, e8m0, {.overflow = Overflow::saturate}, 0x7f800000), (Rounded{0xfe, overflow}));
  EXPECT_EQ(encode(e8m0, nearest, -1), (Rounded{0xff, invalid_flag}));
  EXPECT_EQ(convert(fp32, e8m0, nearest, 0xff800000), (Rounded{0xff, invalid_flag}));  // -Inf
  EXPECT_EQ(convert(e8m0, fp32, nearest, 0), (Rounded{0x00400000, 0}));                // 2^-127, subnormal in fp32
  EXPECT_EQ(convert(e8m0, fp32, nearest, 0xff), (Rounded{0x7fc00000, 0}));
}

TEST(Edges, sign_of_an_exact_zero_sum) {
  for (const auto& mode : rounding_modes) {
    const std::uint64_t cancelled = mode.value == toward_negative ? 0x8000 : 0;
    EXPECT_EQ(evaluate(Operation::sub, fp16, in(mode.value), 0x3c00, 0x3c00), (Rounded{cancelled, 0})) << mode.name;
    EXPECT_EQ(evaluate(Operation::add, fp16, in(mode.value), 0x0000, 0x8000), (Rounded{cancelled, 0})) << mode.name;
    EXPECT_EQ(evaluate(Operation::add, fp16, in(mode.value), 0x8000, 0x8000), (Rounded{0x8000, 0})) << mode.name;
    EXPECT_EQ(evaluate(Operation::fma, fp16, in(mode.value), 0x3c00, 0x3c00, 0xbc00), (Rounded{cancelled, 0}))
        << mode.name;
    EXPECT_EQ(evaluate(Operation::fma, fp16, in(mode.value), 0x8000, 0x3c00, 0x8000), (Rounded{0x8000, 0}))
        << mode.name;
  }
}

TEST(Edges, min_and_max_are_minimumNumber_and_maximumNumber) {
  EXPECT_EQ(evaluate(Operation::min, fp16, nearest, 0x7e00, 0x3c00), (Rounded{0x3c00, 0}));  // a NaN counts as missing
  EXPECT_EQ(evaluate(Operation::max, fp16, nearest, 0x3c00, 0x7e00), (Rounded{0x3c00, 0}));
  EXPECT_EQ(evaluate(Operation::max, fp16, nearest, 0x3c00, 0x7d00), (Rounded{0x3c00, invalid_flag}));  // signalling
  EXPECT_EQ(evaluate(Operation::min, fp16, nearest, 0x7e00, 0x7e00), (Rounded{0x7e00, 0}));
  EXPECT_EQ(evaluate(Operation::min, fp16, nearest, 0x0000, 0x8000), (Rounded{0x8000, 0}));  // -0 < +0
  EXPECT_EQ(evaluate(Operation::max, fp16, nearest, 0x8000, 0x0000), (Rounded{0x0000, 0}));
  EXPECT_EQ(evaluate(Operation::min, fp16, nearest, 0xfc00, 0x3c00), (Rounded{0xfc00, 0}));
}

TEST(Edges, eq_is_quiet_and_lt_and_le_signal) {
  for (const std::uint64_t nan : {0x7e00, 0x7d00}) {
    const Flags quiet = nan == 0x7e00 ? Flags{0} : invalid_flag;
    EXPECT_EQ(evaluate(Operation::eq, fp16, nearest, nan, nan), (Rounded{0, quiet}));
    EXPECT_EQ(evaluate(Operation::lt, fp16, nearest, nan, 0x3c00), (Rounded{0, invalid_flag}));
    EXPECT_EQ(evaluate(Operation::le, fp16, nearest, 0x3c00, nan), (Rounded{0, invalid_flag}));
  }
  EXPECT_EQ(evaluate(Operation::eq, fp16, nearest, 0x8000, 0x0000), (Rounded{1, 0}));
  EXPECT_EQ(evaluate(Operation::lt, fp16, nearest, 0x8000, 0x0000), (Rounded{0, 0}));
  EXPECT_EQ(evaluate(Operation::le, fp16, nearest, 0x0000, 0x8000), (Rounded{1, 0}));
}

TEST(Edges, to_integers_out_of_range_or_nan) {
  Rounding x86 = nearest;
  x86.int_overflow = IntOverflow::x86;
  const std::uint64_t nan = 0x7e00, inf = 0x7c00, minus_inf = 0xfc00, minus_one = 0xbc00;
  EXPECT_EQ(to_integer(fp16, i32, nearest, nan), (Rounded{0, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i32, x86, nan), (Rounded{0x8000'0000, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i32, nearest, inf), (Rounded{0x7fff'ffff, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i32, x86, inf), (Rounded{0x8000'0000, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i32, nearest, minus_inf), (Rounded{0x8000'0000, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i64, nearest, minus_inf), (Rounded{0x8000'0000'0000'0000, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, u32, nearest, minus_one), (Rounded{0, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, u32, x86, minus_one), (Rounded{0xffff'ffff, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, u64, x86, nan), (Rounded{0xffff'ffff'ffff'ffff, invalid_flag}));
  EXPECT_EQ(to_integer(fp16, i32, nearest, minus_one), (Rounded{0xffff'ffff, 0}));
  EXPECT_EQ(to_integer(fp32, i32, nearest, 0x4f000000), (Rounded{0x7fff'ffff, invalid_flag}));  // 2^31
  EXPECT_EQ(to_integer(fp32, i32, nearest, 0xcf000000), (Rounded{0x8000'0000, 0}));             // -2^31 fits
  EXPECT_EQ(to_integer(fp16, u32, nearest, 0xb800), (Rounded{0, 0}));                           // -0.5 ties to 0
}

TEST(Edges, nan_rules) {
  // x86: Inf * 0 = FE00, the first NaN operand is kept and made quiet; CUDA: 7FFF.
  EXPECT_EQ(evaluate(Operation::mul, fp16, with(NanRule::canonical), 0x7c00, 0), (Rounded{0x7e00, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::mul, fp16, with(NanRule::propagate), 0x7c00, 0), (Rounded{0xfe00, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::mul, fp16, with(NanRule::cuda), 0x7c00, 0), (Rounded{0x7fff, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::add, fp16, with(NanRule::propagate), 0xfd01, 0x7e02), (Rounded{0xff01, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::add, fp16, with(NanRule::cuda), 0xfe01, 0x3c00), (Rounded{0x7fff, 0}));
  EXPECT_EQ(evaluate(Operation::fma, fp16, nearest, 0x7c00, 0, 0x7e00), (Rounded{0x7e00, invalid_flag}));
  EXPECT_EQ(convert(fp32, fp16, with(NanRule::propagate), 0xff802000), (Rounded{0xfe01, invalid_flag}));
  EXPECT_EQ(convert(fp16, fp32, with(NanRule::propagate), 0x7e01), (Rounded{0x7fc02000, 0}));
  EXPECT_EQ(convert(fp32, fp16, with(NanRule::cuda), 0xffc00000), (Rounded{0x7fff, 0}));
}

TEST(Edges, nan_rules_of_nvidias_fp64_instructions) {
  // As an H100 answered (evidence/recordings/nvidia-h100): b before c before a, made quiet.
  const Rounding r = with(NanRule::cuda_fp64);
  constexpr std::uint64_t one = 0x3ff0'0000'0000'0000, inf = 0x7ff0'0000'0000'0000;
  EXPECT_EQ(evaluate(Operation::add, fp64, r, 0xfff3'3333'3333'3333, 0xfff5'5555'5555'5555).code,
            0xfffd'5555'5555'5555);
  EXPECT_EQ(evaluate(Operation::add, fp64, r, 0xfff3'3333'3333'3333, one).code, 0xfffb'3333'3333'3333);
  EXPECT_EQ(evaluate(Operation::max, fp64, r, 0xfff3'3333'3333'3333, 0xfff5'5555'5555'5555).code,
            0xfffd'5555'5555'5555);
  EXPECT_EQ(evaluate(Operation::fma, fp64, r, 0x7ff8'0000'0000'0001, 0x7ff8'0000'0000'0002, 0x7ff8'0000'0000'0003).code,
            0x7ff8'0000'0000'0002);
  EXPECT_EQ(evaluate(Operation::fma, fp64, r, 0xffff'ffff'ffff'ffff, inf, 0x7ff0'0000'0000'0001).code,
            0x7ff8'0000'0000'0001);
  EXPECT_EQ(evaluate(Operation::fma, fp64, r, 0x7ff8'0000'0000'0001, one, one).code, 0x7ff8'0000'0000'0001);
  EXPECT_EQ(evaluate(Operation::mul, fp64, r, inf, 0).code, 0xfff8'0000'0000'0000);
}

TEST(Edges, a_nan_that_is_kept_stays_signalling) {
  const Rounding r = with(NanRule::keep);
  EXPECT_EQ(convert(bf16, fp32, r, 0xffbe).code, 0xffbe0000);  // cvt.f32.bf16 of an H100
  EXPECT_EQ(convert(bf16, fp32, r, 0x7fc1).code, 0x7fc10000);
  EXPECT_EQ(convert(fp32, fp16, r, 0x7f80'2000).code, 0x7c01);
  EXPECT_EQ(convert(fp32, fp16, r, 0x7f80'0001).code, 0x7c00);  // none of its bits is left: an infinity
  EXPECT_EQ(convert(e4m3, fp16, r, 0xff).code, 0xfe00);         // E4M3 has no signalling NaN
  EXPECT_EQ(evaluate(Operation::add, fp16, r, 0xfd01, 0x7e02), (Rounded{0xfd01, invalid_flag}));
}

TEST(Edges, infinity_for_a_format_without_one) {
  EXPECT_EQ(convert(fp16, e4m3, nearest, 0x7c00), (Rounded{0x7f, overflow}));
  EXPECT_EQ(convert(fp16, e2m1, nearest, 0xfc00), (Rounded{0xf, overflow}));
  EXPECT_EQ(evaluate(Operation::div, e4m3, nearest, 0x38, 0), (Rounded{0x7f, by_zero}));
  EXPECT_EQ(evaluate(Operation::div, fp16, nearest, 0xbc00, 0), (Rounded{0xfc00, by_zero}));
}

TEST(Edges, tininess_and_flushing) {
  // Both numbers round to 2^-14, the smallest normal value of fp16. With an unbounded exponent, (1 - 2^-12) * 2^-14
  // would round there too, so it is not tiny after rounding. (1 - 2^-11) * 2^-14 would be representable, so it is tiny.
  Rounding after = nearest, before = nearest, ftz = nearest, daz = nearest;
  before.tininess = Tininess::before;
  ftz.flush_outputs = true;
  daz.flush_inputs = true;
  const double at = 0x1p-14 * (1 - 0x1p-12), under = 0x1p-14 * (1 - 0x1p-11);
  EXPECT_EQ(encode(fp16, after, at), (Rounded{0x0400, inexact}));
  EXPECT_EQ(encode(fp16, before, at), (Rounded{0x0400, underflow}));
  EXPECT_EQ(encode(fp16, after, under), (Rounded{0x0400, underflow}));
  EXPECT_EQ(encode(fp16, ftz, at), (Rounded{0x0400, inexact}));
  EXPECT_EQ(encode(fp16, ftz, -under), (Rounded{0x8000, underflow}));
  EXPECT_EQ(encode(fp16, nearest, 0x1p-24), (Rounded{0x0001, 0}));  // exact: no underflow
  EXPECT_EQ(encode(fp16, ftz, 0x1p-24), (Rounded{0x0000, underflow}));
  EXPECT_EQ(evaluate(Operation::add, fp16, daz, 0x3c00, 0x03ff), (Rounded{0x3c00, 0}));
  EXPECT_EQ(evaluate(Operation::eq, fp16, daz, 0x03ff, 0x8001), (Rounded{1, 0}));
}

/// IEEE 754-2019, 9.2: exact results, poles, invalid operands.
TEST(Edges, reciprocals_and_roots) {
  EXPECT_EQ(evaluate(Operation::rcp, fp16, nearest, 0x0000), (Rounded{0x7c00, by_zero}));
  EXPECT_EQ(evaluate(Operation::rcp, fp16, nearest, 0x8000), (Rounded{0xfc00, by_zero}));
  EXPECT_EQ(evaluate(Operation::rcp, fp16, nearest, 0xfc00), (Rounded{0x8000, 0}));
  EXPECT_EQ(evaluate(Operation::rcp, fp16, nearest, 0x0001), (Rounded{0x7c00, overflow}));  // 2^24
  EXPECT_EQ(evaluate(Operation::rcp, fp16, in(toward_zero), 0x8001), (Rounded{0xfbff, overflow}));
  EXPECT_EQ(evaluate(Operation::rcp, fp16, nearest, 0x7bff), (Rounded{0x0100, underflow}));
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0x0000), (Rounded{0x7c00, by_zero}));
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0x8000), (Rounded{0xfc00, by_zero}));
  EXPECT_EQ(evaluate(Operation::rsqrt, e4m3fnuz, nearest, 0), (Rounded{0x80, by_zero}));  // no infinity
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0x7c00), (Rounded{0x0000, 0}));
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0xfc00), (Rounded{0x7e00, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0x8001), (Rounded{0x7e00, invalid_flag}));
  EXPECT_EQ(evaluate(Operation::rsqrt, fp16, nearest, 0x0001), (Rounded{0x6c00, 0}));  // 2^12
  for (const Operation operation : {Operation::rcp, Operation::rsqrt, Operation::exp}) {
    EXPECT_EQ(evaluate(operation, fp16, nearest, 0xfe01), (Rounded{0x7e00, 0}));
    EXPECT_EQ(evaluate(operation, fp16, nearest, 0x7d00), (Rounded{0x7e00, invalid_flag}));  // signalling
    EXPECT_FALSE(refusal({operation, e8m0, e8m0, nearest}).empty());
  }
}

TEST(Edges, exponentials) {
  for (const auto& mode : rounding_modes)
    for (const std::uint64_t zero : {0x0000u, 0x8000u})
      EXPECT_EQ(evaluate(Operation::exp, fp16, in(mode.value), zero), (Rounded{0x3c00, 0}));
  EXPECT_EQ(evaluate(Operation::exp, fp16, nearest, 0x7c00), (Rounded{0x7c00, 0}));
  EXPECT_EQ(evaluate(Operation::exp, fp16, nearest, 0xfc00), (Rounded{0x0000, 0}));
  EXPECT_EQ(evaluate(Operation::exp, e2m1, nearest, 0x7), (Rounded{0x7, overflow}));  // e^6, no infinity
  // Around 1 and beyond the range, where results differ from a neighbour by less than the last bit kept.
  for (const std::uint64_t tiny : {0x0001u, 0x0400u}) {
    EXPECT_EQ(evaluate(Operation::exp, fp16, nearest, tiny), (Rounded{0x3c00, inexact}));
    EXPECT_EQ(evaluate(Operation::exp, fp16, in(toward_positive), tiny), (Rounded{0x3c01, inexact}));
    EXPECT_EQ(evaluate(Operation::exp, fp16, in(toward_zero), 0x8000 | tiny), (Rounded{0x3bff, inexact}));
    EXPECT_EQ(evaluate(Operation::exp, fp64, in(toward_positive), tiny), (Rounded{0x3ff0'0000'0000'0001, inexact}));
    EXPECT_EQ(evaluate(Operation::exp, fp64, in(toward_negative), fp64.sign_mask() | tiny),
              (Rounded{0x3fef'ffff'ffff'ffff, inexact}));
  }
  for (const FloatFormat& f : {fp16, bf16, fp32, fp64}) {
    const std::uint64_t huge = f.max_finite(), low = f.with_sign(huge, true);
    EXPECT_EQ(evaluate(Operation::exp, f, nearest, huge), (Rounded{f.infinity(), overflow}));
    EXPECT_EQ(evaluate(Operation::exp, f, in(toward_negative), huge), (Rounded{huge, overflow}));
    EXPECT_EQ(evaluate(Operation::exp, f, nearest, low), (Rounded{0, underflow}));
    EXPECT_EQ(evaluate(Operation::exp, f, in(toward_positive), low), (Rounded{1, underflow}));
    EXPECT_EQ(evaluate(Operation::exp, f, in(to_odd), low), (Rounded{1, underflow}));
  }
  // Digits from tables: e = 2.71828182845904523536..., 1/e = 0.36787944117144232160...
  EXPECT_EQ(evaluate(Operation::exp, fp64, nearest, 0x3ff0'0000'0000'0000), (Rounded{0x4005'bf0a'8b14'5769, inexact}));
  EXPECT_EQ(evaluate(Operation::exp, fp64, nearest, 0xbff0'0000'0000'0000), (Rounded{0x3fd7'8b56'362c'ef38, inexact}));
}

TEST(Edges, logarithms) {
  const Flags by_zero = flag::divide_by_zero;
  for (const FloatFormat& f : {fp16, bf16, fp32, fp64, e5m2}) {
    const auto log2 = [&](std::uint64_t a, const Rounding& r = {}) { return evaluate(Operation::log2, f, r, a); };
    for (const std::uint64_t zero : {f.zero(), f.zero(true)})
      EXPECT_EQ(log2(zero), (Rounded{f.infinity(true), by_zero}));
    EXPECT_EQ(log2(f.infinity()), (Rounded{f.infinity(), 0}));
    for (const std::uint64_t a : {f.infinity(true), f.with_sign(1, true), f.with_sign(f.max_finite(), true)})
      EXPECT_EQ(log2(a), (Rounded{f.canonical_nan(), flag::invalid}));
    // Powers of two are exact where the format has their exponents, in every mode; that of 1 is +0.
    for (const auto& mode : rounding_modes) {
      const Rounding r{.mode = mode.value};
      EXPECT_EQ(log2(encode(f, {}, 1).code, r), (Rounded{f.zero(), 0}));
      for (const int e : {-8, -2, -1, 1, 2, 8})
        EXPECT_EQ(log2(encode(f, {}, FloatFormat::power_of_two(e)).code, r), (Rounded{encode(f, {}, e).code, 0})) << e;
    }
    EXPECT_EQ(log2(1, {.flush_inputs = true}), (Rounded{f.infinity(true), by_zero}));
  }
  EXPECT_EQ(evaluate(Operation::log2, e4m3, {}, 0), (Rounded{0x7f, by_zero}));  // NaN for -Inf
  EXPECT_EQ(evaluate(Operation::log2, e4m3, {.overflow = Overflow::saturate}, 0), (Rounded{0xfe, by_zero}));
  // The neighbours of 1, and known values.
  EXPECT_EQ(evaluate(Operation::log2, fp64, {}, 0x3ff0'0000'0000'0001),
            (Rounded{0x3cb7'1547'652b'82fd, flag::inexact}));
  EXPECT_EQ(evaluate(Operation::log2, fp64, {}, 0x3fef'ffff'ffff'ffff),
            (Rounded{0xbca7'1547'652b'82fe, flag::inexact}));
  EXPECT_EQ(evaluate(Operation::log2, fp64, {}, 0x4008'0000'0000'0000),
            (Rounded{0x3ff9'5c01'a39f'bd68, flag::inexact}));
  EXPECT_EQ(evaluate(Operation::log2, fp64, {}, 0x4024'0000'0000'0000),
            (Rounded{0x400a'934f'0979'a371, flag::inexact}));
}

}  // namespace edges_test
