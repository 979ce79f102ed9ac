// `halfulp calc`: expressions against values written down by hand, every step against fractions, its text and its
// refusals.
#include "check.hpp"
#include "command.hpp"

#include <halfulp/commands/calculation.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/emulation/text.hpp>

#include <gtest/gtest.h>

namespace calc_test {

using namespace halfulp;
using namespace halfulp::cli;
using halfulp::tests::expect_refused;
using halfulp::tests::run_halfulp;

Rational fraction(long long n, long long d = 1) { return Rational(n, d); }

TEST(Expression, ValuesByPrecedence) {
  const std::pair<const char*, Rational> cases[] = {
      {"1 + 2 * 3", fraction(7)},
      {"(1 + 2) * 3", fraction(9)},
      {"8 / 4 / 2", fraction(1)},
      {"8 - 4 - 2", fraction(2)},
      {"-2^2", fraction(-4)},
      {"(-2)^2", fraction(4)},
      {"2^-3", fraction(1, 8)},
      {"2**10", fraction(1024)},
      {"2^(-1)", fraction(1, 2)},
      {"0.5^2", fraction(1, 4)},
      {"1/3", fraction(1, 3)},
      {"- 1 / 3", fraction(-1, 3)},
      {"0x1.8p-3 * 2", fraction(3, 8)},
      {"1e-2 + 1E2", fraction(10001, 100)},
      {"--1", fraction(1)},
      {"2 * -3", fraction(-6)},
      {"2 - -3", fraction(5)},
      {"abs(-1/3)", fraction(1, 3)},
      {"fma(2, 3, 1)", fraction(7)},
      {"max(1, min(2, 3))", fraction(2)},
      {"rem(5, 3)", fraction(-1)},
      {"rem(5, 2)", fraction(1)},
      {"rem(-3, 2)", fraction(1)},
      {"rcp(3)", fraction(1, 3)},
      {"sqrt(9/4)", fraction(3, 2)},
      {"rsqrt(1/4)", fraction(2)},
      {"log2(1/8)", fraction(-3)},
      {"exp(0)", fraction(1)},
      {"3^0 + 0^3 + 0^0", fraction(2)},
      {"(-1)^15999", fraction(-1)},
      {"ADD(.5, 1.)", fraction(3, 2)},
      {"((((1))))", fraction(1)},
      {"1--1", fraction(2)},
      {"1e1-1", fraction(9)},
      {"0x1p1-1", fraction(1)},
      {"5 - 2^2 * 3", fraction(-7)},
  };
  for (const auto& [text, expected] : cases) {
    const std::optional<Known> value = value_of(parse_expression(text), true);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(value->value, expected) << text;
    EXPECT_TRUE(value->is_exact()) << text;
  }
  for (const char* text : {"sqrt(2)", "1/0", "0x3C00", "inf", "sqrt(-1)", "nan + 1", "exp(1)", "rcp(0)", "rem(1, 0)"})
    EXPECT_FALSE(value_of(parse_expression(text), true)) << text;
}

TEST(Expression, IrrationalValues) {
  // Decimals of pi-free constants, from any table: sqrt 2, e, log2 3.
  const std::pair<const char*, const char*> cases[] = {
      {"sqrt(2)", "1.41421356237309504880168872420969807856967187537694"},
      {"exp(1)", "2.71828182845904523536028747135266249775724709369995"},
      {"log2(3)", "1.58496250072115618145373894394781650875981440769248"}};
  for (const auto& [text, digits] : cases)
    EXPECT_EQ(decimal_text(value_of(parse_expression(text), false)->value, 51), std::string(digits) + "...") << text;
  EXPECT_EQ(value_of(parse_expression("1e300 + 1 - 1e300"), false)->value, 1);
}

TEST(Expression, WhatIrrationalNumbersLeaveIsKnownToAHundredDigits) {
  // Equal to numbers with few digits as far as anybody sees, and never called exact.
  const std::pair<const char*, Rational> close[] = {{"sqrt(2) * sqrt(2)", 2},
                                                    {"sqrt(2) * sqrt(2) - 2", 0},
                                                    {"rem(sqrt(2) * sqrt(2), 2)", 0},
                                                    {"log2(sqrt(2))", fraction(1, 2)},
                                                    {"exp(log2(3) - log2(3))", 1},
                                                    {"1 / (sqrt(3) * sqrt(3))", fraction(1, 3)},
                                                    {"exp(1e-4800)", 1},
                                                    {"rsqrt(2) * sqrt(2)", 1},
                                                    {"-sqrt(5) * rsqrt(1/5)", -5}};
  for (const auto& [text, value] : close) {
    const std::optional<Known> known = value_of(parse_expression(text), false);
    ASSERT_TRUE(known) << text;
    if (denominator(value) != 3) { EXPECT_EQ(known->value, value) << text; }
    EXPECT_FALSE(known->is_exact()) << text;
    EXPECT_LE(abs(Rational(known->value - value)), known->doubt) << text;
    EXPECT_LT(known->doubt, power_of_two(-300)) << text;
  }
  // Near 1 the logarithm is x / ln 2.
  const Rational tiny = value_of(parse_expression("log2(1 + 2^-1000)"), false)->value * power_of_two(1000);
  EXPECT_EQ(decimal_text(tiny, 20), "1.4426950408889634073...");
  EXPECT_FALSE(value_of(parse_expression("sqrt(sqrt(2) * sqrt(2) - 2)"), false)) << "its sign is not known";
  EXPECT_FALSE(value_of(parse_expression("1 / (sqrt(2) * sqrt(2) - 2)"), false));
}

TEST(Expression, ASignBelongsToABareNumberAlone) {
  Rounding down;
  down.mode = RoundingMode::toward_negative;
  const FloatFormat f = parse_format("fp16");
  const auto result = [&](const char* text) { return calculate(parse_expression(text), f, down, 1).result.code; };
  EXPECT_EQ(result("-65519"), 0xfc00u) << "a number below the largest negative one";
  EXPECT_EQ(result("-(65519)"), 0xfbffu) << "65519 rounded down, then negated";
  EXPECT_EQ(result("-(65519)"), result("-(65519 * 1)"));
  EXPECT_EQ(result("-(-0.1)"), 0x2e67u) << "-0.1 rounded away from zero";
  EXPECT_EQ(result("--0.1"), 0x2e67u);
}

TEST(Calculation, EveryStepIsTheOperationOnWhatBecameOfItsOperands) {
  const FloatFormat f = parse_format("fp16");
  for (const auto& mode : rounding_modes) {
    Rounding r;
    r.mode = mode.value;
    if (mode.value == RoundingMode::stochastic) continue;
    const Calculation c = calculate(parse_expression("(0.1 + 0.2) * -0.7 / 3"), f, r, 1);
    const auto rounded = [&](const char* text) { return parse(f, r, text).code; };
    const std::uint64_t sum = evaluate(Operation::add, f, r, rounded("0.1"), rounded("0.2")).code;
    const std::uint64_t product = evaluate(Operation::mul, f, r, sum, rounded("-0.7")).code;
    EXPECT_EQ(c.result.code, evaluate(Operation::div, f, r, product, rounded("3")).code) << mode.name;
    ASSERT_EQ(c.steps.size(), 7u);
    EXPECT_EQ(c.steps[2].text, "0.1 + 0.2");
    EXPECT_EQ(c.steps[2].error->value,
              exact_value(f, sum) - exact_value(f, rounded("0.1")) - exact_value(f, rounded("0.2")));
    EXPECT_EQ(c.error()->value, exact_value(f, c.result.code) - fraction(-7, 100));
  }
}

TEST(Calculation, NumbersAreRoundedOnceFromTheirFractions) {
  // 0.1's double is not a tie in fp16, 2049/2 is; each against the neighbours that explain finds by bisection.
  check::Random random{5};
  for (const char* name : {"fp16", "bf16", "e4m3", "e5m2", "fp32", "fp64", "e2m1"}) {
    const FloatFormat f = parse_format(name);
    for (int trial = 0; trial < 300; ++trial) {
      const Rational x = Rational(static_cast<long long>(random() % 20001) - 10000,
                                  static_cast<long long>(random() % 999) + 1) *
                         power_of_two(static_cast<int>(random() % 12) - 8);
      if (x.is_zero() || abs(x) > exact_value(f, f.max_finite())) continue;
      for (const RoundingMode mode : {RoundingMode::toward_negative, RoundingMode::toward_positive}) {
        Rounding r;
        r.mode = mode;
        const Rational result = exact_value(f, round_exact(f, r, x).code);
        const bool down = mode == RoundingMode::toward_negative;
        EXPECT_TRUE(down ? result <= x : result >= x) << name << " " << x;
        EXPECT_LT(abs(Rational(result - x)), ulp_at(f, x)) << name << " " << x;
      }
      const Rational nearest = exact_value(f, round_exact(f, {}, x).code);
      EXPECT_LE(abs(Rational(nearest - x)) * 2, ulp_at(f, x)) << name << " " << x;
    }
  }
}

TEST(Calculation, SignsOfZerosAndNaNs) {
  const auto code = [](const char* text, const char* format) {
    return calculate(parse_expression(text), parse_format(format), {}, 1).result.code;
  };
  EXPECT_EQ(code("-0", "fp16"), 0x8000u);
  EXPECT_EQ(code("-0", "e4m3fnuz"), 0x00u) << "there is no -0";
  EXPECT_EQ(code("-nan", "e4m3fnuz"), 0x80u) << "its only NaN";
  EXPECT_EQ(code("-inf", "fp16"), 0xfc00u);
  EXPECT_EQ(code("abs(-inf)", "fp16"), 0x7c00u);
  EXPECT_EQ(code("-(1 + 1)", "fp16"), 0xc000u);
  EXPECT_EQ(code("0 * -1", "fp16"), 0x8000u);
  EXPECT_EQ(code("0x3C00 * 2", "fp16"), 0x4000u);
}

TEST(Calculation, StochasticStepsDrawEachTheirOwn) {
  Rounding r;
  r.mode = RoundingMode::stochastic;
  const FloatFormat f = parse_format("fp16");
  bool differ = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Calculation c = calculate(parse_expression("0.1 - 0.1"), f, r, seed);
    ASSERT_EQ(c.steps.size(), 3u);
    differ = differ || c.result.code != 0;
  }
  EXPECT_TRUE(differ) << "0.1 becomes one of its neighbours each time anew";
}

TEST(CalcCommand, Text) {
  EXPECT_EQ(run_halfulp({"calc", "0.1 + 0.2", "--format", "bf16,fp16"}).out,
            "0.1 + 0.2 is 0.3\n\n"
            "  format  result        code    error      in ulp\n"
            "  bf16    0.30078125    0x3e9a  0.000781   0.4\n"
            "  fp16    0.2998046875  0x34cc  -0.000195  -0.8\n");
  EXPECT_EQ(run_halfulp({"calc", "448", "--format", "e4m3,fp32"}).out,
            "448 is 448\n\n"
            "  format  result  code        error\n"
            "  e4m3    448     0x7e        exact\n"
            "  fp32    448     0x43e00000  exact\n");
  EXPECT_EQ(run_halfulp({"calc", "sqrt(2) * sqrt(2) ", "--format", "fp16"}).out.substr(0, 109),
            "sqrt(2) * sqrt(2) is 2 to 100 digits\n\n"
            "  format  result  code    error\n"
            "  fp16    2       0x4000  below 4e-105\n");
  EXPECT_EQ(run_halfulp({"calc", "(1 + 2^-8) - 1", "--format", "bf16"}).out,
            "(1 + 2^-8) - 1 is 0.00390625\n\n"
            "  format  result  code    error     in ulp\n"
            "  bf16    0       0x0000  -0.00391  -128\n\n"
            "  step by step in bf16  result      code    its error  in ulp\n"
            "  1                     1           0x3f80  exact\n"
            "  2^-8                  0.00390625  0x3b80  exact\n"
            "  1 + 2^-8              1           0x3f80  -0.00391   -0.5\n"
            "  (1 + 2^-8) - 1        0           0x0000  exact\n");
  EXPECT_EQ(run_halfulp({"calc", "0.1", "+", "0.2"}).out, run_halfulp({"calc", "0.1 + 0.2"}).out);
  EXPECT_EQ(run_halfulp({"calc", "-(0.1)", "--round", "RTZ"}).out,
            run_halfulp({"calc", "-(0.1)", "--round", "toward-zero"}).out);
  const auto json = nlohmann::json::parse(run_halfulp({"calc", "1/3", "--format", "fp16", "--json"}).out);
  EXPECT_EQ(json["formats"][0]["result"]["code"], "0x3555");
  EXPECT_EQ(json["formats"][0]["steps"].size(), 3u);
}

TEST(CalcCommand, RefusesInOneLine) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"calc", "0.1 +"}, "'0.1 +', character 6, the end; accepted: a number, a function or '('"},
      {{"calc", "1 2"}, "'1 2', character 3, '2'; accepted: an operator or the end"},
      {{"calc", "(1"}, "'(1', character 3, the end; accepted: an operator or ')'"},
      {{"calc", "1)"}, "no '(' is open"},
      {{"calc", "sqr(2)"}, "unknown function 'sqr'; did you mean sqrt?"},
      {{"calc", "sqrt 2"}, "'(' behind sqrt"},
      {{"calc", "fma(1, 2)"}, "fma of 2 operands; accepted: 3"},
      {{"calc", "sqrt(1, 2)"}, "sqrt of 2 operands; accepted: 1"},
      {{"calc", "2^x"}, "a whole number behind ^"},
      {{"calc", "2^0.5"}, "a whole number behind ^"},
      {{"calc", "sqrt(2)^2"}, "^ on numbers only"},
      {{"calc", "0^-1"}, "another base than 0"},
      {{"calc", "10^99999"}, "powers below 2^16000"},
      {{"calc", "1e99999"}, "out of range"},
      {{"calc", "0x3C000", "--format", "fp16"}, "wider than the 16 bits of fp16"},
      {{"calc", "0xZZ"}, "is not a code word"},
      {{"calc", "1..2"}, "is not a number"},
      {{"calc", ""}, "EXPRESSION is missing"},
      {{"calc"}, "EXPRESSION is missing"},
      {{"calc", std::string(2000, '1')}, "at most 1000"},
      {{"calc", std::string(900, '(')}, "at most 100 nested"},
      {{"calc", "1 + 1", "--format", "e8m0"}, "e8m0 holds scales"},
      {{"calc", "1", "--format", "fp16,half"}, ""},
      {{"calc", "1", "--format", "fp16,fp16"}, "there twice"},
      {{"calc", "1", "--fromat", "fp16"}, "--format"},
      {{"explain", "sqrt(2)", "--format", "fp16"}, "is no rational number"},
      {{"explain", "1/0", "--format", "fp16"}, "is no rational number"},
      {{"explain", "1/", "--format", "fp16"}, "accepted: a number"},
  };
  for (const auto& [words, line] : cases) expect_refused(words, line);
}

TEST(ExplainCommand, ReadsExpressions) {
  const auto code = [](const char* text) {
    return nlohmann::json::parse(run_halfulp({"explain", text, "--format", "fp16", "--json"}).out)["result"]["code"];
  };
  EXPECT_EQ(code("1/3"), "0x3555");
  EXPECT_EQ(code("-1/3"), "0xb555");
  EXPECT_EQ(code("-(1/3)"), "0xb555");
  EXPECT_EQ(code("2^-25 + 2^-60"), "0x0001") << "just above a tie, which binary64 does not see";
  EXPECT_EQ(code("2^-25"), "0x0000");
  EXPECT_EQ(code("(1 + 2^-11) * 3"), "0x4201") << "rounded once: 3 + 3 * 2^-11";
}

}  // namespace calc_test
