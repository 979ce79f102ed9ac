// `halfulp calc`: expressions against values written down by hand, every step against fractions, its text and its
// refusals.
#include "check.hpp"
#include "command.hpp"

#include <halfulp/commands/calculation.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/emulation/text.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

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
      {"sum(1/3, 3)", fraction(1)},
      {"2 * sum(0.5, 1e3)", fraction(1000)},
      {"sum(-1, 2^4) + SUM(2, 1)", fraction(-14)},
      {"8 \u2212 \u22122", fraction(10)},
      {"3 \u00d7 4 \u00f7 6 \u00b7 5 \u22c5 2", fraction(20)},
  };
  for (const auto& [text, expected] : cases) {
    const std::optional<Known> value = value_of(parse_expression(text), nullptr);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(value->value, expected) << text;
    EXPECT_TRUE(value->is_exact()) << text;
  }
  for (const char* text : {"sqrt(2)", "1/0", "0x3C00", "inf", "sqrt(-1)", "nan + 1", "exp(1)", "rcp(0)", "rem(1, 0)"})
    EXPECT_FALSE(value_of(parse_expression(text), nullptr)) << text;
}

TEST(Expression, IrrationalValues) {
  // Decimals of pi-free constants, from any table: sqrt 2, e, log2 3.
  const std::pair<const char*, const char*> cases[] = {
      {"sqrt(2)", "1.41421356237309504880168872420969807856967187537694"},
      {"exp(1)", "2.71828182845904523536028747135266249775724709369995"},
      {"log2(3)", "1.58496250072115618145373894394781650875981440769248"}};
  for (const auto& [text, digits] : cases)
    EXPECT_EQ(decimal_text(value_of(parse_expression(text), irrational_result)->value, 51), std::string(digits) + "...")
        << text;
  EXPECT_EQ(value_of(parse_expression("1e300 + 1 - 1e300"), irrational_result)->value, 1);
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
    const std::optional<Known> known = value_of(parse_expression(text), irrational_result);
    ASSERT_TRUE(known) << text;
    if (denominator(value) != 3) { EXPECT_EQ(known->value, value) << text; }
    EXPECT_FALSE(known->is_exact()) << text;
    EXPECT_LE(abs(Rational(known->value - value)), known->doubt) << text;
    EXPECT_LT(known->doubt, power_of_two(-300)) << text;
  }
  // Near 1 the logarithm is x / ln 2.
  const Rational tiny = value_of(parse_expression("log2(1 + 2^-1000)"), irrational_result)->value * power_of_two(1000);
  EXPECT_EQ(decimal_text(tiny, 20), "1.4426950408889634073...");
  EXPECT_FALSE(value_of(parse_expression("sqrt(sqrt(2) * sqrt(2) - 2)"), irrational_result)) << "its sign is not known";
  EXPECT_FALSE(value_of(parse_expression("1 / (sqrt(2) * sqrt(2) - 2)"), irrational_result));
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

/// The sum term by term, and which terms are shown.
TEST(Calculation, ASumIsAddedUpFromLeftToRight) {
  const FloatFormat f = parse_format("fp16");
  const std::uint64_t tenth = parse(f, {}, "0.1").code;
  for (const std::uint64_t n : {1u, 2u, 3u, 8u, 9u, 100u, 5000u}) {
    std::uint64_t sum = tenth;
    for (std::uint64_t i = 1; i < n; ++i) sum = evaluate(Operation::add, f, {}, sum, tenth).code;
    const Calculation c = calculate(parse_expression("sum(0.1, " + std::to_string(n) + ")"), f, {}, 1);
    EXPECT_EQ(c.result.code, sum) << n;
    EXPECT_EQ(c.exactly->value, fraction(static_cast<long long>(n), 10));
    std::uint64_t steps = 0;
    for (const CalculationStep& step : c.steps) steps += step.left_out ? step.left_out : 1;
    EXPECT_EQ(steps, n) << "0.1, and n - 1 additions";
    EXPECT_LE(c.steps.size(), 9u);
    EXPECT_EQ(c.steps.back().result.code, sum);
    if (n == 100) { EXPECT_EQ(c.steps.at(c.steps.size() - 2).text, "sum(0.1, 99)"); }
  }
  // Stochastic sums go on where others have settled, and differ by their seeds.
  Rounding stochastic;
  stochastic.mode = RoundingMode::stochastic;
  const Expression long_sum = parse_expression("sum(0.1, 10000)");
  const double up = f.value(calculate(long_sum, f, stochastic, 1).result.code);
  EXPECT_NEAR(up, 1000, 60);
  EXPECT_LT(f.value(calculate(long_sum, f, {}, 1).result.code), 300);
}

TEST(Calculation, RightByLuckIsNotExact) {
  const auto cancels = [](const char* text, const char* format) {
    return calculate(parse_expression(text), parse_format(format), {}, 1).errors_cancel();
  };
  EXPECT_TRUE(cancels("0.1 - 0.1", "fp16"));
  EXPECT_TRUE(cancels("1/3 * 3", "fp32"));
  EXPECT_FALSE(cancels("0.5 + 0.25", "fp16")) << "nothing was rounded";
  EXPECT_FALSE(cancels("0.1 + 0.2", "fp16")) << "not right";
  EXPECT_FALSE(cancels("sqrt(2) - sqrt(2)", "fp16")) << "what is right is known to many digits only";
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

TEST(CalcCommand, LongSumsShowTheirEnds) {
  EXPECT_EQ(run_halfulp({"calc", "sum(1, 1e6)", "--format", "bf16"}).out,
            "sum(1, 1e6) is 1000000\n\n"
            "  format  result  code    error   in ulp\n"
            "  bf16    256     0x4380  -1e+06  -244\n\n"
            "  step by step in bf16  result  code    its error  in ulp\n"
            "  1                     1       0x3f80  exact\n"
            "  sum(1, 2)             2       0x4000  exact\n"
            "  sum(1, 3)             3       0x4040  exact\n"
            "  ... 253 more\n"
            "  sum(1, 257)           256     0x4380  -1         -0.5\n"
            "  ... 999742 the same\n"
            "  sum(1, 1e6)           256     0x4380  -1         -0.5\n");
}

TEST(CalcCommand, WhatCancelsIsSaid) {
  EXPECT_EQ(run_halfulp({"calc", "0.1 - 0.1", "--format", "fp16,fp32"}).out,
            "0.1 - 0.1 is 0\n\n"
            "  format  result  code        error\n"
            "  fp16    0       0x0000      cancelled\n"
            "  fp32    0       0x00000000  cancelled\n"
            "  cancelled: right, though steps were rounded; their errors cancel or are lost\n");
  EXPECT_EQ(run_halfulp({"calc", "0.5 - 0.5", "--format", "fp16,fp32"}).out.find("cancel"), std::string::npos);
}

TEST(CalcCommand, UlpsHaveAllTheirDigits) {
  const std::string out = run_halfulp({"calc", "(1 + 2^-12) - 1", "--format", "bf16"}).out;
  EXPECT_NE(out.find("  -128\n"), std::string::npos) << out;
  EXPECT_NE(run_halfulp({"calc", "1 + 2^-8 + 8 - 8 - 1", "--format", "bf16"}).out.find("-128"), std::string::npos);
  EXPECT_EQ(ulps_text(Rational(-1024), 3), "-1024");
  EXPECT_EQ(ulps_text(Rational(1234567), 3), "1234567");
  EXPECT_EQ(ulps_text(Rational(12345678), 3), "1.23e+07");
  EXPECT_EQ(ulps_text(Rational(-2, 3), 3), "-0.667");
  EXPECT_EQ(ulps_text(Rational(10245, 10), 3), "1025");
  EXPECT_EQ(ulps_text(Rational(0), 3), "0");
}

/// Two steps that differ behind their 26th character, and two that differ in their middle.
TEST(CalcCommand, StepsAreToldApart) {
  const auto steps = [](const std::string& expression) {
    const std::string out = run_halfulp({"calc", expression, "--format", "fp16"}).out;
    std::istringstream lines(out.substr(out.find("step by step")));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("  ")) names.push_back(line.substr(2, 26));
    return names;
  };
  for (const char* expression :
       {"(1.000000001 + 2.000000002 + 3.000000003) * (1.000000001 + 2.000000002 + 3.000000004)",
        "(1.00000000100000000000000000000001 + 5) / (1.00000000100000000010000000000001 + 5)"}) {
    std::vector<std::string> names = steps(expression);
    ASSERT_GT(names.size(), 4u);
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << *std::ranges::adjacent_find(names);
  }
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
      {{"calc", "2^2^3"}, "parentheses where powers follow each other"},
      {{"calc", "2**2 ** 3"}, "parentheses where powers follow each other"},
      {{"calc", "2^0.5"}, "a whole number behind ^"},
      {{"calc", "sqrt(2)^2"}, "^ on numbers only"},
      {{"calc", "0^-1"}, "another base than 0"},
      {{"calc", "10^99999"}, "character 4, '9'; accepted: powers from 2^-16000 to 2^16000"},
      {{"calc", "2^-99999"}, "character 3, '-'; accepted: powers from 2^-16000 to 2^16000"},
      {{"calc", "0,1"}, "'0,1', character 2, ','; accepted: an operator or the end; decimals have a point: 0.1"},
      {{"calc", "(12,5) * 2"}, "accepted: an operator or ')'; decimals have a point: 12.5"},
      {{"calc", "sqrt(2,5)"}, "sqrt of 2 operands; accepted: 1; decimals have a point: 2.5"},
      {{"calc", "sqrt(2, 5)"}, "sqrt of 2 operands; accepted: 1\n"},
      {{"calc", "1 + x"}, "'1 + x', character 5, 'x': there are no variables; accepted: numbers such as 0.1, code "},
      {{"calc", "pi"}, "there are no variables"},
      {{"calc", "--5"}, "'--5' begins with two signs, as an option does; accepted: one sign, -(-1), or the word -- "},
      {{"calc", "--fromat"}, "unknown option '--fromat'; did you mean --format?"},
      {{"calc", "sum(0.1)"}, "sum of 1 operand; accepted: 2"},
      {{"calc", "sum(0.1, 0)"}, "sum of '0' terms; accepted: a whole number from 1 to 1000000, as in sum(0.1, 1000)"},
      {{"calc", "sum(0.1, 2.5)"}, "sum of '2.5' terms"},
      {{"calc", "sum(0.1, 1000001)"}, "sum of '1000001' terms"},
      {{"calc", "sum(0.1, 2 + 1)"}, "sum of '2 + 1' terms"},
      {{"calc", "sum(sum(1, 600000), 600000)"}, "sums of more than 1000000 terms; accepted: 1000000 in all"},
      {{"calc", "0x3F800000"},
       "wider than the 16 bits of bf16; accepted: 0x and 4 hexadecimal digits, or another --for"},
      {{"calc", "0x1ffffffffffffffff"}, "'0x1ffffffffffffffff' is wider than 64 bits, and so than any format"},
      {{"calc", "1e99999"}, "out of range"},
      {{"calc", "0x3C000", "--format", "fp16"}, "wider than the 16 bits of fp16"},
      {{"calc", "0xZZ"}, "is not a code word"},
      {{"calc", "1..2"}, "is not a number"},
      {{"calc", ""}, "EXPRESSION is missing"},
      {{"calc"}, "EXPRESSION is missing"},
      {{"calc", std::string(2000, '1')}, "at most 1000"},
      {{"calc", std::string(900, '(')}, "at most 100 nested"},
      {{"calc", "1 + 1", "--format", "e8m0"}, "e8m0 holds scales: it has conversions only, no add"},
      {{"calc", "1 + exp(1 / 2)", "--format", "e8m0"}, "no div"},
      {{"calc", "exp(1)", "--format", "e8m0"}, "no exp"},
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
  EXPECT_EQ(code("\u22121 \u00f7 3"), "0xb555");
  EXPECT_EQ(code("\u22120.1"), "0xae66");
  EXPECT_EQ(code("(1 + 2^-11) * 3"), "0x4201") << "rounded once: 3 + 3 * 2^-11";
}

}  // namespace calc_test
