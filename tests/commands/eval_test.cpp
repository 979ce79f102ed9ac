// `halfulp eval`: the line format, checks, streams cut anywhere, bad lines. Tests the library and the program.
#include "check.hpp"
#include "command.hpp"

#include <halfulp/emulation/random.hpp>
#include <halfulp/commands/lines.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace eval_test {

using namespace halfulp;
using halfulp::cli::EvalOptions;
using halfulp::cli::LineEvaluator;
using halfulp::cli::LineStream;
using halfulp::tests::expect_error;
using halfulp::tests::Outcome;
using halfulp::tests::run_halfulp;

EvalOptions options(Operation operation, NumberType from, NumberType to, bool check = false) {
  EvalOptions result;
  result.task = {operation, from, to, {}};
  result.check = check;
  return result;
}
EvalOptions options(Operation operation, const FloatFormat& f, bool check = false) {
  return options(operation, f, f, check);
}

/// The answer to a stream of lines, fed in blocks of `block` characters.
std::string evaluated(const EvalOptions& options, const std::string& input, std::size_t block = 7) {
  LineEvaluator evaluator(options);
  LineStream stream(evaluator);
  std::string out;
  for (std::size_t i = 0; i < input.size(); i += block) stream.feed(std::string_view(input).substr(i, block), out);
  stream.finish(out);
  return out;
}

/// The message that refuses a line. Checks that the line appended nothing.
std::string refused(const EvalOptions& options, const std::string& line) {
  LineEvaluator evaluator(options);
  std::string out = "kept";
  try {
    evaluator.line(line, out);
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(out, "kept");
    EXPECT_EQ(evaluator.cases(), 0u);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << line;
  return {};
}

TEST(EvalLines, WritesTestFloatsFormat) {
  EXPECT_EQ(evaluated(options(Operation::add, fp16), "3C00 1000\n"), "3C00 1000 3C00 01\n");
  EXPECT_EQ(evaluated(options(Operation::lt, fp16), "3C00 4000\n4000 3C00\n7E00 3C00\n"),
            "3C00 4000 1 00\n4000 3C00 0 00\n7E00 3C00 0 10\n");
  EXPECT_EQ(evaluated(options(Operation::fma, fp16), "3C00 4000 4200\n"), "3C00 4000 4200 4500 00\n");
  EXPECT_EQ(evaluated(options(Operation::rcp, fp16), "4000\n4200\n8000\n"),
            "4000 3800 00\n4200 3555 01\n8000 FC00 08\n");
  EXPECT_EQ(evaluated(options(Operation::rsqrt, fp16), "4400\n4000\nBC00\n"),
            "4400 3800 00\n4000 39A8 01\nBC00 7E00 10\n");
  EXPECT_EQ(evaluated(options(Operation::log2, fp16), "4200\n2C00\n8000\nBC00\n"),
            "4200 3E57 01\n2C00 C400 00\n8000 FC00 08\nBC00 7E00 10\n");
  EXPECT_EQ(evaluated(options(Operation::exp, fp16), "8000\n3C00\n4A00\n"),
            "8000 3C00 00\n3C00 4170 01\n4A00 7C00 05\n");
  EXPECT_EQ(evaluated(options(Operation::convert, fp16, i32), "C000\n3E00\n"), "C000 FFFFFFFE 00\n3E00 00000002 00\n");
  EXPECT_EQ(evaluated(options(Operation::convert, fp16, i64), "C000\n"), "C000 FFFFFFFFFFFFFFFE 00\n");
  EXPECT_EQ(evaluated(options(Operation::convert, u64, fp16), "FFFFFFFFFFFFFFFF\n1\n"),
            "FFFFFFFFFFFFFFFF 7C00 05\n0000000000000001 3C00 00\n");
  EXPECT_EQ(evaluated(options(Operation::convert, fp16, fp32), "3C00\n"), "3C00 3F800000 00\n");
  EXPECT_EQ(evaluated(options(Operation::convert, fp16, tf32), "3C00\n"), "3C00 1FC00 00\n");
  EXPECT_EQ(evaluated(options(Operation::add, e2m1), "2 2\n"), "2 2 4 00\n");
}

TEST(EvalLines, ReadsWhatProgramsWrite) {
  const auto add = options(Operation::add, fp16);
  const std::string result = "3C00 1000 3C00 01\n";
  for (const char* line : {"3c00 1000", "0x3C00 0X1000", "  3C00\t 1000  ", "3C00 1000\r\n",
                           "\n \r\n# a comment\n3C00 1000\n", "00003C00 1000"})
    EXPECT_EQ(evaluated(add, line), result) << line;
  EXPECT_EQ(evaluated(add, ""), "");
  EXPECT_EQ(evaluated(add, "\n\n# nothing\n"), "");
}

TEST(EvalLines, BlocksMayEndAnywhere) {
  std::string input;
  check::Random random{1};
  char line[32];
  for (int i = 0; i < 50; ++i) {
    std::snprintf(line, sizeof line, "%04X %04X\n", static_cast<unsigned>(random() & 0xffff),
                  static_cast<unsigned>(random() & 0xffff));
    input += line;
  }
  const std::string whole = evaluated(options(Operation::mul, fp16), input, input.size());
  for (std::size_t block = 1; block < 40; ++block)
    EXPECT_EQ(evaluated(options(Operation::mul, fp16), input, block), whole) << block;
}

TEST(EvalLines, EveryOperationAgreesWithEvaluate) {
  check::Random random{2};
  for (const OperationInfo& row : operations) {
    const auto task = options(row.operation, bf16,
                              row.operation == Operation::convert ? NumberType(fp16) : NumberType(bf16));
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t a = random() & 0xffff, b = random() & 0xffff, c = random() & 0xffff;
      const Rounded expected = evaluate(task.task, a, b, c);
      char line[64], answer[96];
      const int n = std::snprintf(line, sizeof line, "%04X %04X %04X", int(a), int(b), int(c)) - 5 * (3 - row.arity);
      std::snprintf(answer, sizeof answer, "%.*s %0*llX %02X\n", n, line, task.task.result_hex_digits(),
                    static_cast<unsigned long long>(expected.code), expected.flags);
      EXPECT_EQ(evaluated(task, std::string(line, static_cast<std::size_t>(n))), answer) << row.name;
    }
  }
}

TEST(EvalLines, StochasticRoundingTakesOneWordACase) {
  auto add = options(Operation::add, fp16);
  add.task.rounding.mode = RoundingMode::stochastic;
  add.seed = 77;
  std::string input, expected;
  char line[64];
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Rounded r = evaluate(add.task, 0x3C00, 0x1200, 0, rounding_bits(77, 0, i));
    input += "3C00 1200\n# between\n";
    std::snprintf(line, sizeof line, "3C00 1200 %04X %02X\n", static_cast<unsigned>(r.code), r.flags);
    expected += line;
  }
  EXPECT_EQ(evaluated(add, input), expected);
  EXPECT_NE(expected.find("3C01"), std::string::npos);
  EXPECT_NE(expected.find(" 3C00 01"), std::string::npos);
}

TEST(EvalLines, ChecksResultsAndFlags) {
  const auto add = options(Operation::add, fp16, true);
  EXPECT_EQ(evaluated(add, "3C00 1000 3C00 01\n3C00 1000 3C00\n"), "");
  EXPECT_EQ(evaluated(add, "3C00 1000 3C01 01\n"), "line 1: 3C00 1000  your result 3C01 01, halfulp's 3C00 01\n");
  EXPECT_EQ(evaluated(add, "3C00 1000 3C00 00\n"), "line 1: 3C00 1000  your result 3C00 00, halfulp's 3C00 01\n");
  EXPECT_EQ(evaluated(add, "# why\n3C00 1000 3C01\n"), "line 2: 3C00 1000  your result 3C01, halfulp's 3C00\n");
  LineEvaluator evaluator(add);
  std::string out;
  evaluator.line("3C00 1000 3C00 01", out);
  evaluator.line("3C00 1000 3C00 00", out);
  evaluator.line("# no case", out);
  EXPECT_EQ(evaluator.cases(), 2u);
  EXPECT_EQ(evaluator.differing(), 1u);
}

TEST(EvalLines, AnyNanIsAnyNanUnlessStrict) {
  auto add = options(Operation::add, fp16, true);
  const std::string lines = "7E00 3C00 FE01 00\n7E00 3C00 7C00 00\n";
  EXPECT_EQ(evaluated(add, lines), "line 2: 7E00 3C00  your result 7C00 00, halfulp's 7E00 00\n");
  add.strict_nan = true;
  EXPECT_EQ(evaluated(add, lines).find("line 1: 7E00 3C00  your result FE01 00, halfulp's 7E00 00\n"), 0u);
  // The bits of an integer are never a NaN.
  EXPECT_NE(evaluated(options(Operation::convert, fp16, u32, true), "7E00 00007E00 10\n"), "");
}

TEST(EvalLines, RefusesBadLines) {
  const auto add = options(Operation::add, fp16), check = options(Operation::add, fp16, true);
  EXPECT_NE(refused(add, "3C00").find("add got 1 code word; accepted: 2 operands"), std::string::npos);
  EXPECT_NE(refused(add, "3C00 3C00 3C00").find("more than 2"), std::string::npos);
  EXPECT_NE(refused(add, "3C00 1.5").find("operand 2 is '1.5'"), std::string::npos);
  EXPECT_NE(refused(add, "-1 3C00").find("operand 1 is '-1'"), std::string::npos);
  EXPECT_NE(refused(add, "3C00 0x").find("'0x'"), std::string::npos);
  EXPECT_NE(refused(add, "13C00 3C00").find("wider than 16 bits"), std::string::npos);
  EXPECT_NE(refused(add, "10000000000003C00 3C00").find("wider than 16 bits"), std::string::npos);
  EXPECT_NE(refused(options(Operation::add, fp64), "10000000000000000 0").find("wider than 64 bits"),
            std::string::npos);
  EXPECT_NE(refused(check, "3C00 3C00").find("got 2"), std::string::npos);
  EXPECT_NE(refused(check, "3C00 3C00 4000 00 00").find("more than 4"), std::string::npos);
  EXPECT_NE(refused(check, "3C00 3C00 4000 20").find("the line's flags"), std::string::npos);
  EXPECT_NE(
      refused(options(Operation::eq, fp16, true), "3C00 3C00 2").find("the line's result is '2', wider than 1 bit"),
      std::string::npos);
  EXPECT_NE(refused(add, std::string("3C00 3C\0 0", 10)).find("'3C?'"), std::string::npos);
  EXPECT_THROW(LineEvaluator(options(Operation::add, e8m0)), std::invalid_argument);
}

TEST(EvalLines, NamesTheLineAndKeepsWhatCameBefore) {
  LineEvaluator evaluator(options(Operation::sqrt, fp16));
  LineStream stream(evaluator);
  std::string out, message;
  try {
    stream.feed("3C00\n\n4400\nzz\n3C00\n", out);
  } catch (const std::invalid_argument& error) { message = error.what(); }
  EXPECT_EQ(out, "3C00 3C00 00\n4400 4000 00\n");
  EXPECT_EQ(message.find("standard input, line 4: operand 1 is 'zz'"), 0u) << message;
}

TEST(EvalLines, EndlessLinesAreRefusedEarly) {
  LineEvaluator evaluator(options(Operation::sqrt, fp16));
  LineStream stream(evaluator);
  std::string out;
  EXPECT_THROW(for (int i = 0; i < 100; ++i) stream.feed(std::string(1000, '0'), out), std::invalid_argument);
}

TEST(EvalCommand, OperandsAsArgumentsAndLines) {
  for (const Outcome& outcome : {run_halfulp({"eval", "add", "--format", "fp16"}, "3C00 1000\n"),
                                 run_halfulp({"eval", "add", "--format", "fp16", "3c00", "0x1000"}),
                                 run_halfulp({"eval", "add", "3C00", "1000", "--format=fp16"})}) {
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.out, "3C00 1000 3C00 01\n");
    EXPECT_EQ(outcome.err, "");
  }
}

/// What `halfulp eval` writes for these arguments, without a complaint.
std::string out(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "eval");
  const Outcome outcome = run_halfulp(std::move(arguments));
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

TEST(EvalCommand, OptionsReachTheRounding) {
  EXPECT_EQ(out({"add", "--format", "fp16", "--round", "toward-positive", "3C00", "1000"}), "3C00 1000 3C01 01\n");
  EXPECT_EQ(out({"add", "--format", "fp16", "7BFF", "7BFF"}), "7BFF 7BFF 7C00 05\n");
  EXPECT_EQ(out({"add", "--format", "fp16", "--overflow", "saturate", "7BFF", "7BFF"}), "7BFF 7BFF 7BFF 05\n");
  EXPECT_EQ(out({"add", "--format", "fp16", "--flush-inputs", "0001", "0001"}), "0001 0001 0000 00\n");
  EXPECT_EQ(out({"add", "--format", "fp16", "--flush-outputs", "0001", "0001"}), "0001 0001 0000 03\n");
  EXPECT_EQ(out({"mul", "--format", "fp16", "--nan", "propagate", "7C00", "0000"}), "7C00 0000 FE00 10\n");
  EXPECT_EQ(out({"mul", "--format", "fp16", "--nan", "cuda", "7C00", "0000"}), "7C00 0000 7FFF 10\n");
  // Tiny before rounding, the smallest normal number after it.
  EXPECT_EQ(out({"mul", "--format", "fp16", "03FF", "3C01"}), "03FF 3C01 0400 01\n");
  EXPECT_EQ(out({"mul", "--format", "fp16", "--tininess", "before", "03FF", "3C01"}), "03FF 3C01 0400 03\n");
  EXPECT_EQ(out({"round-to-integral", "--format", "fp16", "3E00"}), "3E00 4000 00\n");
  EXPECT_EQ(out({"round-to-integral", "--format", "fp16", "--exact", "3E00"}), "3E00 4000 01\n");
  EXPECT_EQ(out({"convert", "--format", "fp16", "--to", "i32", "--int-overflow", "x86", "7C00"}), "7C00 80000000 10\n");
  EXPECT_EQ(out({"convert", "--format", "fp16", "--to", "u32", "7C00"}), "7C00 FFFFFFFF 10\n");
  EXPECT_EQ(out({"convert", "--format", "i32", "--to", "fp16", "FFFFFFFF"}), "FFFFFFFF BC00 00\n");
  const std::string one = out(
      {"add", "--format", "fp16", "--round", "stochastic", "--seed", "1", "--random-bits", "8", "3C00", "1200"});
  EXPECT_TRUE(one == "3C00 1200 3C00 01\n" || one == "3C00 1200 3C01 01\n") << one;
}

TEST(EvalCommand, CheckEndsWithItsSumAndItsStatus) {
  const Outcome same = run_halfulp({"eval", "add", "--format", "fp16", "--check"}, "3C00 1000 3C00 01");
  EXPECT_EQ(same.status, 0);
  EXPECT_EQ(same.out, "1 checked, 0 differ\n");
  const Outcome differs = run_halfulp({"eval", "add", "--format", "fp16", "--check"},
                                      "3C00 1000 3C00 01\n3C00 1000 3C01 01\n");
  EXPECT_EQ(differs.status, 1);
  EXPECT_EQ(differs.out, "line 2: 3C00 1000  your result 3C01 01, halfulp's 3C00 01\n2 checked, 1 differ\n");
}

TEST(EvalCommand, ShowsSomeOfTheDifferencesAndCountsAll) {
  const Outcome two = run_halfulp({"eval", "add", "--format", "fp16", "--check", "--show", "2"},
                                  "3C00 1000 1\n3C00 1000 2\n3C00 1000 3\n3C00 1000 3C00\n");
  EXPECT_EQ(two.status, 1);
  EXPECT_EQ(std::count(two.out.begin(), two.out.end(), '\n'), 3) << two.out;
  EXPECT_NE(two.out.find("4 checked, 3 differ\n"), std::string::npos) << two.out;
  expect_error(run_halfulp({"eval", "add", "--format", "fp16", "--show", "2"}, ""), "--show belongs to --check");
}

/// The lines of a text, split into words.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

TEST(EvalCommand, MakesEveryCaseOfASmallFormat) {
  const std::string all = out({"mul", "--format", "e2m1", "--exhaustive", "--round", "to-odd"});
  const auto rows = rows_of(all);
  ASSERT_EQ(rows.size(), 256u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].size(), 4u);
    EXPECT_EQ(std::stoul(rows[i][0], nullptr, 16) * 16 + std::stoul(rows[i][1], nullptr, 16), i);
  }
  const Outcome checked = run_halfulp({"eval", "mul", "--format", "e2m1", "--round", "to-odd", "--check"}, all);
  EXPECT_EQ(checked.out, "256 checked, 0 differ\n");
  const Outcome other = run_halfulp({"eval", "mul", "--format", "e2m1", "--check", "--show", "0"}, all);
  EXPECT_EQ(other.status, 1) << "another mode has other results";
  EXPECT_EQ(rows_of(out({"convert", "--format", "fp16", "--to", "i32", "--exhaustive"})).size(), 65536u);
}

TEST(EvalCommand, MakesASampleThatASeedRepeats) {
  const std::vector<std::string> fma{"fma", "--format", "fp32", "--sample", "20000", "--seed", "7"};
  const std::string sample = out(fma);
  EXPECT_EQ(rows_of(sample).size(), 20000u);
  EXPECT_EQ(out(fma), sample);
  EXPECT_NE(out({"fma", "--format", "fp32", "--sample", "20000", "--seed", "8"}), sample);
  EXPECT_EQ(run_halfulp({"eval", "fma", "--format", "fp32", "--check"}, sample).out, "20000 checked, 0 differ\n");
  // Every flag, NaN and infinities are in it.
  std::set<std::string> flags;
  for (const auto& row : rows_of(sample)) flags.insert(row.back());
  for (const char* flag : {"00", "01", "03", "05", "10"}) EXPECT_TRUE(flags.contains(flag)) << flag;
  // A sample of a small format is all of it.
  EXPECT_EQ(out({"add", "--format", "e2m1", "--sample", "1000"}), out({"add", "--format", "e2m1", "--exhaustive"}));
}

TEST(EvalCommand, OperandsComeFromOneSource) {
  const auto refused = [](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), "eval");
    expect_error(run_halfulp(std::move(arguments), ""), why);
  };
  refused({"add", "--format", "fp16", "--show", "1", "3C00", "3C00"}, "--show belongs to --check");
  refused({"add", "--format", "fp16", "--exhaustive", "--strict-nan"}, "--strict-nan belongs to --check");
  refused({"add", "--format", "fp16", "--exhaustive", "3C00", "3C00"}, "accepted: one of operands, --check");
  refused({"add", "--format", "fp16", "--exhaustive", "--sample", "4"}, "accepted: one of operands, --check");
  refused({"add", "--format", "fp16", "--sample", "4", "--check"}, "accepted: one of operands, --check");
  refused({"add", "--format", "fp32", "--exhaustive"}, "more than 2^32 cases; accepted: --sample N");
  refused({"convert", "--format", "i32", "--to", "fp16", "--sample", "4"}, "floating-point formats only");
  refused({"add", "--format", "fp16", "--sample", "0"}, "accepted: an integer from 1 to 4294967296");
}

TEST(EvalCommand, BadInputIsOneLine) {
  const auto eval = [](std::vector<std::string> arguments, const std::string& input = "3C00 3C00\n") {
    arguments.insert(arguments.begin(), "eval");
    return run_halfulp(std::move(arguments), input);
  };
  expect_error(eval({"add"}), "--format is missing; accepted: the operands' format");
  expect_error(eval({"--format", "fp16"}), "OP is missing; accepted: add, sub");
  expect_error(eval({"ad", "--format", "fp16"}), "did you mean add");
  expect_error(eval({"mulAdd", "--format", "fp16"}),
               "unknown operation 'mulAdd'; did you mean fma? accepted: add, sub");
  expect_error(eval({"roundToInt", "--format", "fp16"}), "did you mean round-to-integral?");
  expect_error(eval({"add", "--format", "fp17"}), "did you mean fp16");
  expect_error(eval({"add", "--format", "i32"}), "integers only convert");
  expect_error(eval({"add", "--format", "e8m0"}), "conversions only");
  expect_error(eval({"add", "--format", "fp16", "--to", "bf16"}), "--to belongs to convert");
  expect_error(eval({"add", "--format", "fp16", "--exact"}), "--exact belongs to round-to-integral");
  for (const char* rule : {"x86", "saturate"})
    expect_error(eval({"round-to-integral", "--format", "fp16", "--int-overflow", rule}), "--int-overflow belongs to");
  expect_error(eval({"convert", "--format", "fp16"}), "convert needs --to");
  expect_error(eval({"convert", "--format", "i32", "--to", "i64"}), "floating-point");
  expect_error(eval({"add", "--format", "fp16", "--round", "nearest"}), "did you mean nearest-even");
  expect_error(eval({"add", "--format", "fp16", "--overflow", "wrap"}), "accepted: ieee");
  expect_error(eval({"add", "--format", "fp16", "--tininess", "now"}), "accepted");
  expect_error(eval({"add", "--format", "fp16", "--nan", "zero"}), "accepted");
  expect_error(eval({"add", "--format", "fp16", "--int-overflow", "wrap"}), "accepted");
  expect_error(eval({"add", "--format", "fp16", "--random-bits", "33"}), "1 to 32");
  expect_error(eval({"add", "--format", "fp16", "--random-bits", "x"}), "random-bits");
  expect_error(eval({"add", "--format", "fp16", "--seed", "-1"}), "an integer from 0 to 18446744073709551615");
  expect_error(eval({"add", "--format", "fp16", "--bogus"}), "--bogus");
  expect_error(eval({"add", "--format", "fp16"}, "3C00\n"), "line 1");
  expect_error(eval({"add", "--format", "fp16"}, "3C00 1.5\n"), "line 1");
  expect_error(eval({"add", "--format", "fp16"}, "# first\n3C00 13C00"), "line 2");
  expect_error(eval({"add", "--format", "fp16", "--check"}, "3C00 3C00\n"), "line 1");
  expect_error(eval({"add", "--format", "fp16", "3C00"}), "got 1");
  expect_error(eval({"add", "--format", "fp16", "3C00", "-1"}), "-1");
  expect_error(eval({"add", "--format", "fp16", ""}), "empty");
}

TEST(EvalCommand, SaysHowToComputeWithNumbers) {
  const auto eval = [](std::vector<std::string> operands) {
    operands.insert(operands.begin(), {"eval", "add", "--format", "fp16"});
    return run_halfulp(operands);
  };
  const char* const calc = "halfulp calc '0.1 + 2' --format fp16";
  expect_error(eval({"0.1", "2"}), calc);
  const Outcome small = eval({"1", "2"});
  EXPECT_EQ(small.out, "0001 0002 0003 00\n");
  EXPECT_EQ(small.err, "halfulp: the operands are code words; of numbers: halfulp calc '1 + 2' --format fp16\n");
  EXPECT_EQ(run_halfulp({"calc", "1 + 2", "--format", "fp16"}).status, 0) << "what the hint says works";
  EXPECT_EQ(eval({"3C00", "1000"}).err, "");
  EXPECT_EQ(eval({"0001", "1000"}).err, "");
}

TEST(EvalCommand, UnwritableOutputIsAnError) {
  const Outcome full = run_halfulp({"eval", "add", "--format", "fp16"}, "3C00 1000\n", "/dev/full");
  expect_error(full, "standard output");
}

}  // namespace eval_test
