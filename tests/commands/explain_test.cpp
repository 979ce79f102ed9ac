// `halfulp explain`: its numbers against definitions, its text against golden texts.
#include "check.hpp"
#include "command.hpp"

#include <halfulp/emulation/text.hpp>
#include <halfulp/commands/explanation.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <chrono>
#include <cstring>
#include <fstream>
#include <set>

namespace explain_test {

using namespace halfulp;
using namespace halfulp::cli;
using halfulp::tests::expect_error;
using halfulp::tests::expect_refused;
using halfulp::tests::run_halfulp;
using RunOutcome = halfulp::tests::Outcome;

constexpr const char* numbers[] = {
    "0.1",    "-0.1",     "0",       "-0",       "1",
    "3",      "-2.5",     "1e-8",    "-6.1e-5",  "448.7",
    "464",    "65519.99", "65520",   "-1e300",   "1e-40",
    "5e-324", "1e-4000",  "-1e4000", "0x1.8p-3", "inf",
    "-inf",   "nan",      "0x1",     "0x0",      "0.333333333333333333333333333333333333333333"};

TEST(RationalText, Decimals) {
  EXPECT_EQ(decimal_text(Rational(1, 10), 8), "0.1");
  EXPECT_EQ(decimal_text(Rational(1, 3), 4), "0.3333...");
  EXPECT_EQ(decimal_text(Rational(-2, 3), 4), "-0.6666...");
  EXPECT_EQ(decimal_text(Rational(65520), 8), "65520");
  EXPECT_EQ(decimal_text(Rational(1000), 2), "1000");
  EXPECT_EQ(decimal_text(Rational(1, 1 << 24), 4), "5.960...e-08");
  EXPECT_EQ(decimal_text(Rational(-123456789), 3), "-1.23...e+08");
  EXPECT_EQ(decimal_text(Rational(999, 1000), 3), "0.999");
  EXPECT_EQ(rounded(Rational(2, 3), 4), "0.6667");
  EXPECT_EQ(rounded(Rational(-9999, 10000), 3), "-1");
  EXPECT_EQ(rounded(power_of_two(-24), 4), "5.96e-08");
  EXPECT_EQ(rounded(Rational(123456), 3), "123000");
}

TEST(RationalText, Binary) {
  EXPECT_EQ(binary_text(Rational(1, 10), -4, 3, 8), "1.100|11001100...");
  EXPECT_EQ(binary_text(Rational(13, 128), -4, 3, 8), "1.101|0");
  EXPECT_EQ(binary_text(Rational(-3, 10), 0, 1, 4), "0.0|1001...");
  EXPECT_EQ(binary_exponent(Rational(1, 10)), -4);
  EXPECT_EQ(binary_exponent(Rational(-8)), 3);
  EXPECT_EQ(binary_exponent(Rational(7, 8)), -1);
}

TEST(Explain, EveryModeGivesWhatParseGives) {
  for (const NamedFormat& row : catalogue())
    for (const char* text : numbers) {
      const bool by_code = std::string_view(text).substr(0, 2) == "0x" && !std::strchr(text, 'p');
      const Explanation e = explain(row.format, {}, text, 0);
      EXPECT_EQ(e.by_code, by_code) << text;
      std::set<RoundingMode> seen;
      for (const auto& outcome : e.outcomes) {
        seen.insert(outcome.mode);
        if (outcome.mode == RoundingMode::stochastic || by_code) continue;
        Rounding rounding;
        rounding.mode = outcome.mode;
        EXPECT_EQ(outcome.result, parse(row.format, rounding, text)) << row.name << " " << text;
      }
      EXPECT_EQ(seen.size(), rounding_modes.size());
    }
}

TEST(Explain, NeighboursEncloseTheValueWithNothingBetween) {
  for (const NamedFormat& row : catalogue()) {
    const FloatFormat& f = row.format;
    for (const char* text : numbers) {
      const Explanation e = explain(f, {}, text, 0);
      if (!e.value) continue;
      if (e.below) { EXPECT_LT(e.below->value, *e.value) << row.name << " " << text; }
      if (e.above) { EXPECT_GT(e.above->value, *e.value) << row.name << " " << text; }
      if (f.storage_bits() > 8) continue;
      bool found = false;
      for (std::uint64_t code = 0; code <= f.code_mask(); ++code) {
        if (!f.is_finite(code)) continue;
        const Rational value = exact_value(f, code);
        EXPECT_EQ(value, Rational(f.value(code)));
        found = found || value == *e.value;
        if (e.below && e.below->code) {
          EXPECT_FALSE(value > e.below->value && value < *e.value) << row.name << " " << text << " " << code;
        }
        if (e.above && e.above->code) {
          EXPECT_FALSE(value < e.above->value && value > *e.value) << row.name << " " << text << " " << code;
        }
        if (!e.below || !e.below->code) { EXPECT_GE(value, *e.value) << row.name << " " << text; }
        if (!e.above || !e.above->code) { EXPECT_LE(value, *e.value) << row.name << " " << text; }
      }
      EXPECT_EQ(e.exact, found) << row.name << " " << text;
    }
  }
}

TEST(Explain, ProbabilitiesCountEveryRandomNumber) {
  for (const FloatFormat& f : {fp16, e4m3, e2m1, e8m0})
    for (const bool flush : {false, true})
      for (const char* text : {"0.1", "-0.3", "1.7", "460", "65519.99", "6.1e-5", "6.1034e-05", "0.0156", "0.01562",
                               "1e-9", "2e38", "0.24999"}) {
        Rounding rounding;
        rounding.random_bits = 6;
        rounding.flush_outputs = flush;
        const Explanation e = explain(f, rounding, text, 0);
        rounding.mode = RoundingMode::stochastic;
        Rational sum = 0;
        for (const auto& outcome : e.outcomes) {
          if (outcome.mode != RoundingMode::stochastic) continue;
          int count = 0;
          for (std::uint64_t random = 0; random < 64; ++random)
            count += parse(f, rounding, text, random) == outcome.result;
          EXPECT_EQ(outcome.probability, Rational(count) / 64) << text;
          sum += outcome.probability;
        }
        EXPECT_EQ(sum, 1) << text;
      }
}

/// Each reason fits its result. This derives the reason from the result and the neighbours, mode by mode.
TEST(Explain, ReasonsAreTrue) {
  std::set<std::string> seen;
  for (const NamedFormat& row : catalogue())
    for (const bool saturate : {false, true})
      for (const bool flush : {false, true})
        for (const char* text : numbers) {
          Rounding rounding;
          if (saturate) rounding.overflow = Overflow::saturate;
          rounding.flush_outputs = flush;
          const Explanation e = explain(row.format, rounding, text, 0);
          for (const ModeOutcome& o : e.outcomes) {
            const auto mode = std::string(name_of(o.mode));
            SCOPED_TRACE(std::string(row.name) + " " + text + " " + mode + ": " + o.reason);
            const bool beyond = o.reason.starts_with("tie, beyond ");
            seen.insert(o.reason.substr(0, 4) == "p = " ? "p" : beyond ? "tie, beyond" : o.reason);
            EXPECT_LE(o.reason.size(), 17u);
            const bool finite = row.format.is_finite(o.result.code);
            const auto away = [&](const std::optional<Neighbour>& x) {
              return x ? Rational(abs(Rational(x->value - *e.value))) : Rational(-1);
            };
            const Rational least = std::min(away(e.below), away(e.above)),
                           most = std::max(away(e.below), away(e.above));
            if (o.reason == "nearer") {
              EXPECT_LT(least, most);
              EXPECT_TRUE(finite && abs(*o.error) == least);
              EXPECT_EQ(mode.rfind("nearest", 0), 0u);
            } else if (o.reason.rfind("tie", 0) == 0) {
              EXPECT_EQ(least, most);
              EXPECT_EQ(beyond, !finite) << "a tie with a neighbour that the format does not have";
              EXPECT_TRUE(!finite || o.reason != "tie: even" || o.result.code % 2 == 0);
              EXPECT_TRUE(!finite || o.reason != "tie: away" || *o.error * *e.value > 0);
              EXPECT_TRUE(o.reason != "tie: to 0" || (finite && *o.error * *e.value < 0));
            } else if (o.reason == "exact") {
              EXPECT_TRUE(finite && *o.error == 0);
            } else if (o.reason == "odd last bit") {
              EXPECT_TRUE(!finite || o.result.code % 2 == 1);
            } else if (o.reason == "+inf is up") {
              EXPECT_TRUE(finite ? *o.error > 0 : !row.format.sign(o.result.code) || row.format.is_nan(o.result.code));
            } else if (o.reason == "-inf is down") {
              EXPECT_TRUE(finite ? *o.error < 0 : row.format.sign(o.result.code) || row.format.is_nan(o.result.code));
            } else if (o.reason == "0 is down") {
              EXPECT_TRUE(finite && *e.value > 0 && *o.error < 0);
            } else if (o.reason == "0 is up") {
              EXPECT_TRUE(finite && *e.value < 0 && *o.error > 0);
            } else if (o.reason == "flushed") {
              EXPECT_TRUE(row.format.is_zero(o.result.code) && !e.value->is_zero() && flush);
            } else if (o.reason == "saturates") {
              EXPECT_TRUE(saturate && finite && (o.result.code & row.format.max_finite()) == row.format.max_finite());
            } else if (o.reason == "beyond max" || o.reason == "stays finite") {
              EXPECT_TRUE(!finite || *o.error * *e.value < 0);
              EXPECT_EQ(o.reason == "stays finite" && !finite, false);
            } else if (o.reason == "infinite" || o.reason == "no infinity" || o.reason == "NaN" ||
                       o.reason == "no NaN") {
              EXPECT_FALSE(e.value);
              EXPECT_EQ(o.reason == "infinite", row.format.is_infinite(o.result.code));
            } else if (o.reason == "no negatives" || o.reason == "smallest") {
              EXPECT_FALSE(row.format.is_signed);
            } else if (o.reason.rfind("p = ", 0) == 0) {
              EXPECT_EQ(mode, "stochastic");
            } else {
              ADD_FAILURE() << "a reason that this test does not know";
            }
          }
        }
  for (const char* reason : {"nearer",     "tie: even",    "tie: away",    "tie: to 0", "exact",       "odd last bit",
                             "+inf is up", "tie, beyond",  "-inf is down", "0 is down", "0 is up",     "flushed",
                             "saturates",  "beyond max",   "stays finite", "infinite",  "no infinity", "NaN",
                             "no NaN",     "no negatives", "smallest",     "p"})
    EXPECT_TRUE(seen.count(reason)) << reason;
}

TEST(Explain, DecimalsAreExact) {
  const Explanation e = explain(e4m3, {}, "0.1", 0);
  EXPECT_EQ(*e.value, Rational(1, 10));
  EXPECT_EQ(e.code, 0x1du);
  EXPECT_EQ(*e.error(), Rational(1, 640));
  EXPECT_EQ(e.ulp, Rational(1, 128));
  // A digit far beyond a double's precision still decides.
  EXPECT_EQ(explain(fp16, {}, "1.00048828125", 0).code, 0x3c00u);
  EXPECT_EQ(explain(fp16, {}, "1.000488281250000000000000000000000000000000000000000001", 0).code, 0x3c01u);
  EXPECT_FALSE(explain(fp64, {}, "1.000000000000000000000000000000000000000000000000000001", 0).exact);
}

TEST(Explain, FitsTheTerminal) {
  for (const NamedFormat& row : catalogue())
    for (const char* text : numbers) {
      if (row.format.storage_bits() > 32 && std::string_view(text) == "-1e4000") continue;
      std::istringstream lines(render(explain(row.format, {}, text, 0), {}));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(line.size(), row.format.storage_bits() > 19 ? 86u : 80u) << row.name << " " << text << "\n" << line;
        EXPECT_TRUE(line.empty() || line.back() != ' ') << row.name << " " << text << "\n" << line;
        for (const char c : line) EXPECT_TRUE(c >= ' ' && c < 127) << row.name << " " << text;
      }
    }
}

struct Golden {
  const char* file;
  std::vector<std::string> arguments;
};
const Golden goldens[] = {
    {"explain_e4m3_tenth", {"explain", "0.1", "--format", "e4m3"}},
    {"explain_fp16_overflow", {"explain", "65519.99", "--format", "fp16", "--random-bits", "4"}},
    {"explain_fp64_tenth", {"explain", "-0.1", "--format", "fp64"}},
    {"explain_bf16_subnormal", {"explain", "1e-40", "--format", "bf16", "--flush-outputs"}},
    {"explain_e8m0", {"explain", "3", "--format", "e8m0"}},
    {"explain_e8m0_zero", {"explain", "0", "--format", "e8m0"}},
    {"explain_fp16_code", {"explain", "0x7BFF", "--format", "fp16"}},
    {"explain_e2m1", {"explain", "--format", "e2m1", "--", "-0.3"}},
    {"explain_fp16_nan", {"explain", "0x7D01", "--format", "fp16"}},
    {"formats", {"formats"}},
    {"formats_e4m3", {"formats", "e4m3"}},
    {"formats_e6m9finite", {"formats", "e6m9finite"}},
    {"formats_e8m0", {"formats", "e8m0"}},
};

/// HALFULP_REFRESH_GOLDEN=1 writes the new text instead. Read the difference before you commit it.
TEST(Golden, TextsStayAsTheyAre) {
  for (const Golden& golden : goldens) {
    const RunOutcome outcome = run_halfulp(golden.arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    const std::string path = std::string(HALFULP_GOLDEN) + "/" + golden.file + ".txt";
    if (std::getenv("HALFULP_REFRESH_GOLDEN")) {
      std::ofstream(path, std::ios::binary) << outcome.out;
      continue;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string expected{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(outcome.out, expected) << golden.file;
  }
}

TEST(Drawing, UnicodeAndColourSayTheSame) {
  for (const NamedFormat& row : catalogue()) {
    const Explanation e = explain(row.format, {}, "0.1", 0);
    const std::string plain = render(e, {});
    std::string coloured = render(e, {false, true});
    for (std::size_t begin; (begin = coloured.find('\x1b')) != std::string::npos;)
      coloured.erase(begin, coloured.find('m', begin) + 1 - begin);
    EXPECT_EQ(coloured, plain) << row.name;
    std::string drawn = render(e, {true, false});
    EXPECT_NE(drawn, plain);
    const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
    EXPECT_EQ(lines(drawn), lines(plain));
  }
}

TEST(ExplainCommand, NegativeNumbersNeedNoDashes) {
  for (const char* number : {"-0.1", "-.5", "-inf", "-nan", "-1e-5", "-0x1p-3", "-Infinity"}) {
    const RunOutcome plain = run_halfulp({"explain", number, "--format", "fp16"});
    EXPECT_EQ(plain.status, 0) << number << plain.err;
    EXPECT_EQ(plain.out, run_halfulp({"explain", "--format", "fp16", "--", number}).out) << number;
    EXPECT_EQ(plain.out.find(std::string(number) + " in fp16"), 0u) << plain.out;
  }
}

TEST(ExplainCommand, TheLargestSeedIsASeed) {
  EXPECT_EQ(run_halfulp({"explain", "1", "--format", "fp16", "--seed", "18446744073709551615"}).status, 0);
}

/// Ten thousand digits are read exactly and quickly.
TEST(Explain, LongDecimalsAreExactAndQuick) {
  const auto start = std::chrono::steady_clock::now();
  const std::string halfway = "1.00048828125" + std::string(9'900, '0');
  EXPECT_EQ(explain(fp16, {}, halfway, 0).code, 0x3c00u);
  const Explanation above = explain(fp16, {}, halfway + "1", 0);
  EXPECT_EQ(above.code, 0x3c01u);
  EXPECT_NE(*above.value, Rational(2049, 2048));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20))
      << "under sanitizers; else well below a second";
}

TEST(ExplainCommand, BadInputIsOneLine) {
  expect_refused({"explain"}, "--format");
  expect_refused({"explain", "--format", "fp16"}, "takes one VALUE");
  expect_refused({"explain", "1", "2", "--format", "fp16"}, "takes one VALUE");
  expect_refused({"explain", "", "--format", "fp16"}, "not a number");
  expect_refused({"explain", "one", "--format", "fp16"}, "not a number");
  expect_refused({"explain", "1\n2", "--format", "fp16"}, "not a number");
  expect_refused({"explain", "3C00", "--format", "fp16"}, "a code word with its prefix such as 0x3C00");
  expect_refused({"explain", std::string(10'001, '1'), "--format", "fp16"},
                 "has 10001 digits; accepted: at most 10000");
  expect_refused({"explain", std::string(100'001, '1'), "--format", "fp16"}, "100001 digits; accepted: at most 100000");
  expect_refused({"explain", "0x", "--format", "fp16"}, "not a number");
  expect_refused({"explain", "0xZZ", "--format", "fp16"}, "not a code word");
  expect_refused({"explain", "0x17BFF", "--format", "fp16"}, "wider than the 16 bits");
  expect_refused({"explain", "0x1ffffffffffffffff", "--format", "fp64"}, "wider than the 64 bits");
  expect_refused({"explain", "1e5001", "--format", "fp16"}, "out of range");
  expect_refused({"explain", "1e-99999999999", "--format", "fp16"}, "out of range");
  expect_refused({"explain", "1", "--format", "fp99"}, "unknown format");
  expect_refused({"explain", "1", "--format", "fp16", "--round", "up"},
                 "unknown rounding mode 'up'; did you mean ru? accepted: nearest-even, nearest-away, nearest-to-zero, "
                 "toward-zero, toward-positive, toward-negative, to-odd, stochastic, rne, rna, rtz, ru, rd, sr\n");
  expect_refused({"explain", "0,1", "--format", "fp16"},
                 "'0,1' has a decimal comma; accepted: a decimal point (0.1), or a code word");
  expect_refused({"explain", "1,000,000", "--format", "fp16"}, "'1,000,000' is not a number");
  expect_refused({"explain", "2^-99999", "--format", "fp16"}, "accepted: powers from 2^-16000 to 2^16000");
  expect_refused({"explain", "--5", "--format", "fp16"}, "'--5' begins with two signs, as an option does");
  expect_refused({"explain", "1", "--format", "fp16,half"}, "--format: fp16 is there twice");
  expect_refused({"explain", "1", "--format", "fp16,fp99"}, "unknown format 'fp99'");
  expect_refused({"explain", "1", "--fromat", "fp16"}, "--format");
  for (const char* seed : {"x", "-1", "18446744073709551616", "1e3", ""})
    expect_refused({"explain", "1", "--format", "fp16", "--seed", seed},
                   "--seed is '" + std::string(seed) + "'; accepted: an integer from 0 to 18446744073709551615");
  expect_refused({"explain", "1", "--format", "fp16", "--random-bits", "33"},
                 "--random-bits is '33'; accepted: an integer from 1 to 32");
  expect_refused({"explain", "1", "--format", "fp16", "--json=3"}, "--json takes no value");
  expect_refused({"explain", "1"}, "--format is missing; accepted: a format such as");
  expect_refused({"explain", "1", "--format"}, "--format: a value is missing; accepted: a format such as");
  expect_refused({"explain", "1", "--format", "fp16", "--format", "bf16"}, "--format is there 2 times; accepted: once");
  expect_refused(
      {"explain", "--", "-0.1", "--format", "bf16"},
      "--format is missing; accepted: a format such as fp16 or e5m3 (see halfulp formats), or several, separated by "
      "commas; options stand before --");
  expect_refused({"--", "list"}, "a command is missing");
  expect_refused({"formats", ""}, "unknown format ''; accepted: fp16");
  expect_refused({"formats", "e4m0"}, "format 'e4m0' is too small for IEEE infinities");
  expect_refused({"formats", "fp8"}, "format 'fp8' is one of two; accepted: e4m3, e5m2");
  expect_refused({"explain", "1", "--format", "fp16", "-x"}, "unknown option '-x'");
  expect_refused({"formats", "fp99"}, "unknown format");
  expect_refused({"formats", "fp16", "bf16"}, "bf16");
  expect_refused({"formats", "--all"}, "--all");
  expect_refused({"backends", "x86"}, "x86");
}

TEST(Output, AFullDiskIsOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"formats"}, {"explain", "1", "--format", "fp16"}, {"backends"}})
    expect_error(run_halfulp(arguments, "", "/dev/full"));
}

TEST(ExplainCommand, SeveralFormatsStandBelowEachOther) {
  const auto of = [](const char* formats) { return run_halfulp({"explain", "0.1", "--format", formats}).out; };
  EXPECT_EQ(of("fp16,e4m3"), of("fp16") + "\n" + of("e4m3"));
  const auto json = nlohmann::json::parse(run_halfulp({"explain", "0.1", "--format", "fp16,e4m3", "--json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1], nlohmann::json::parse(run_halfulp({"explain", "0.1", "--format", "e4m3", "--json"}).out));
}

/// 65520 lies halfway between 65504 and 65536, which FP16 does not have.
TEST(ExplainCommand, ATieBeyondTheLargestValueIsCalledSo) {
  const auto reason = [](const char* value, const char* format, std::size_t mode) {
    return explain(parse_format(format), {}, value, 0).outcomes.at(mode).reason;
  };
  EXPECT_EQ(reason("65520", "fp16", 0), "tie, beyond 65504");
  EXPECT_EQ(reason("65520", "fp16", 1), "tie, beyond 65504");
  EXPECT_EQ(reason("65520", "fp16", 2), "tie: to 0");
  EXPECT_EQ(reason("-65520", "fp16", 0), "tie, beyond max");
  EXPECT_EQ(reason("464", "e4m3", 0), "tie: even");
  EXPECT_EQ(reason("464", "e4m3", 1), "tie, beyond 448");
}

TEST(ExplainCommand, JsonSaysTheSame) {
  const auto json = nlohmann::json::parse(run_halfulp({"explain", "0.1", "--format", "e5m2", "--json"}).out);
  EXPECT_EQ(json["exactly"], "1/10");
  EXPECT_EQ(json["result"], (nlohmann::json{{"code", "0x2e"}, {"value", 0.09375}}));
  EXPECT_EQ(json["error"], "-1/160");
  EXPECT_EQ(json["ulp"], "1/64");
  EXPECT_EQ(json["above"]["code"], "0x2f");
  ASSERT_EQ(json["modes"].size(), 9u);  // stochastic rounding has two outcomes
  EXPECT_EQ(json["modes"][4]["rounding"], "toward-positive");
  EXPECT_EQ(json["modes"][4]["code"], "0x2f");
  EXPECT_EQ(json["modes"][4]["reason"], "+inf is up");
  EXPECT_TRUE(
      nlohmann::json::parse(run_halfulp({"explain", "inf", "--format", "fp16", "--json"}).out)["ulp"].is_null());
}

/// A value of the format that flushing replaces is not kept: it stays on the line, and the error is said.
TEST(ExplainCommand, WhatIsFlushed) {
  const RunOutcome text = run_halfulp({"explain", "2^-127", "--format", "bf16", "--flush-outputs"});
  EXPECT_NE(text.out.find("\n  asked      2^-127 = 5.877"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" = -64 ulp\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("2^-127\n\n  1 ulp"), std::string::npos) << text.out;
  const auto json = [](const char* value, const char* flag) {
    return nlohmann::json::parse(run_halfulp({"explain", value, "--format", "bf16", flag, "--json"}).out);
  };
  EXPECT_EQ(json("2^-127", "--flush-outputs")["is_exact"], false);
  EXPECT_EQ(json("2^-126", "--flush-outputs")["is_exact"], true);
  EXPECT_EQ(json("0x0040", "--flush-inputs")["modes"][0]["code"], "0x0000");
  expect_refused({"explain", "2^-127", "--format", "bf16", "--flush-inputs"},
                 "a code word such as 0x0001, not '2^-127'");
}

}  // namespace explain_test
