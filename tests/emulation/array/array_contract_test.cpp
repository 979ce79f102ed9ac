// What array functions count, refuse, and report about the path they take.
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace {

using namespace halfulp;

TEST(Tally, counts_what_the_flags_say) {
  // fp16: exact, inexact, tiny and inexact (a zero and a subnormal), exactly subnormal, overflow, NaN, infinity.
  const std::vector<float> in{1,
                              1.0001f,
                              1e-9f,
                              1e-7f,
                              0x1p-24f,
                              1e6f,
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()};
  std::vector<float> out(in.size());
  Tally tally;
  quantize(fp16, {}, in, out, {}, &tally);
  EXPECT_EQ(tally, (Tally{.elements = 8,
                          .nan = 1,
                          .overflow = 1,
                          .underflow = 2,
                          .inexact = 4,
                          .to_zero = 1,
                          .subnormal = 2,
                          .flags = flag::inexact | flag::underflow | flag::overflow}));
  std::vector<float> without(in.size());
  quantize(fp16, {}, in, without);
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(without[i]));
}

// Saturation replaces infinite operands of conversions, but not of sums, whichever call came before.
TEST(ArrayCalls, do_not_depend_on_the_call_before) {
  const Rounding saturating{.overflow = Overflow::saturate};
  const std::vector<float> infinity{std::numeric_limits<float>::infinity()};
  const std::vector<std::uint8_t> infinite{static_cast<std::uint8_t>(e5m2.infinity())},
      one{static_cast<std::uint8_t>(0x3c)};
  std::vector<std::uint8_t> code(1), sum(1);
  for (int k = 0; k < 2; ++k) {
    encode<float, std::uint8_t>(e5m2, saturating, infinity, code);
    EXPECT_EQ(code[0], e5m2.max_finite());
    apply<std::uint8_t>(Operation::add, e5m2, saturating, infinite, one, {}, sum);
    EXPECT_EQ(sum[0], e5m2.infinity());
  }
}

TEST(ArrayErrors, are_told_before_anything_is_written) {
  std::vector<float> in(10, 1.5f), out(10, 7), longer(11, 7);
  std::vector<std::uint8_t> narrow(10, 7);
  std::vector<std::uint16_t> a(10, 0x3c00), sum(10, 7);
  const auto message = [](auto f) {
    try {
      f();
    } catch (const std::invalid_argument& e) { return std::string(e.what()); }
    return std::string("nothing thrown");
  };
  using testing::Test;
  EXPECT_EQ(message([&] { quantize(fp16, {}, in, longer); }),
            "the operand has 10 elements, the result 11: they must be equal");
  EXPECT_EQ(message([&] { quantize(fp16, {}, std::span(in).first(9), std::span(in).subspan(1, 9)); }),
            "the operand and the result overlap: they must be the same array or apart");
  EXPECT_EQ(message([&] { encode<float, std::uint8_t>(fp16, {}, in, narrow); }),
            "fp16 code words have 16 bits, the array's elements 8");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::add, fp16, {}, a, {}, {}, sum); }),
            "the second operand has 0 elements, the result 10: they must be equal");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::sqrt, fp16, {}, a, a, {}, sum); }),
            "sqrt takes 1 operand, and was given the second operand");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::rem, fp16, {}, a, a, {}, sum); }),
            "arrays have add, sub, mul, div, sqrt and fma, not rem");
  EXPECT_EQ(message([&] { apply<std::uint8_t>(Operation::add, e8m0, {}, narrow, narrow, {}, narrow); }),
            "e8m0 holds scales: it has conversions only, no add");
  Rounding many;
  many.mode = RoundingMode::stochastic;
  many.random_bits = 33;
  EXPECT_EQ(message([&] { quantize(fp16, many, in, out); }), "random bits must be 1 to 32, not 33");
  const std::string nothing =
      "a descriptor with exponent_bits = 0, fraction_bits = 0, bias = 0 has 0 exponent bits, not 1 to 11";
  EXPECT_EQ(message([&] { quantize(FloatFormat{}, {}, in, out); }), nothing);
  EXPECT_EQ(message([&] { encode<float, std::uint8_t>(FloatFormat{}, {}, in, narrow); }), nothing);
  EXPECT_EQ(message([&] { decode<std::uint8_t>(FloatFormat{}, narrow, out); }), nothing);
  EXPECT_EQ(message([&] { apply<std::uint8_t>(Operation::add, FloatFormat{}, {}, narrow, narrow, {}, narrow); }),
            nothing);
  for (const auto& [f, why] : {std::pair{FloatFormat{5, -1, 15}, "has -1 fraction bits, not 0 to 52"},
                               {FloatFormat{-3, 10, 15}, "has -3 exponent bits"},
                               {FloatFormat{5, 0, 15}, "is too small for IEEE infinities and NaNs"},
                               {FloatFormat{5, 10, 2000}, "beyond the range of a double (bias 2000)"}})
    EXPECT_NE(message([&, &g = f] { quantize(g, {}, in, out); }).find(why), std::string::npos) << why;
  for (const float x : out) EXPECT_EQ(x, 7);
  for (const float x : longer) EXPECT_EQ(x, 7);
  for (const auto x : sum) EXPECT_EQ(x, 7);
}

TEST(ArrayPath, is_the_scalar_one_where_no_kernel_applies) {
  const Rounding plain, payloads{.nan = NanRule::propagate}, random{.mode = RoundingMode::stochastic},
      even{.mode = RoundingMode::stochastic, .variant = StochasticVariant::nearest_even};
  for (const NamedFormat& row : catalogue()) {
    const bool narrow = row.format.storage_bits() < 32 && row.format != e8m0;
    EXPECT_EQ(encodes_in_vectors<float>(row.format, plain), narrow) << row.name;
    EXPECT_EQ(decodes_in_vectors(row.format), row.format.storage_bits() <= 32 && row.format != e8m0) << row.name;
    EXPECT_FALSE(encodes_in_vectors<float>(row.format, even)) << row.name;
  }
  EXPECT_TRUE(encodes_in_vectors<double>(fp32, plain));
  EXPECT_FALSE(encodes_in_vectors<double>(fp64, plain));
  EXPECT_TRUE(encodes_in_vectors<float>(e2m1, payloads));  // it has no NaN
  EXPECT_FALSE(encodes_in_vectors<float>(fp16, payloads));
  EXPECT_TRUE(encodes_in_vectors<float>(bf16, random));
  for (const Operation operation :
       {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::sqrt, Operation::fma}) {
    EXPECT_TRUE(applies_in_vectors(operation, fp16, plain));
    EXPECT_FALSE(applies_in_vectors(operation, fp16, payloads));
    EXPECT_FALSE(applies_in_vectors(operation, fp64, plain));
    EXPECT_EQ(applies_in_vectors(operation, e4m3, random), operation != Operation::sqrt);
    EXPECT_EQ(applies_in_vectors(operation, fp16, random), operation != Operation::div && operation != Operation::sqrt);
  }
}

}  // namespace
