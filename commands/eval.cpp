#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/lines.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/options.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

namespace halfulp::cli {
namespace {

struct EvalArguments {
  std::string operation, format, to;
  std::vector<std::string> operands;
  RoundingOptions rounding;
  bool check = false, strict_nan = false;
};

EvalOptions eval_options(const EvalArguments& options) {
  EvalOptions result;
  Task& task = result.task;
  task.operation = parse_operation(options.operation);
  task.from = parse_number_type(options.format);
  const bool converts = task.operation == Operation::convert;
  if (converts && options.to.empty()) throw std::invalid_argument("convert needs --to, a format or i32, i64, u32, u64");
  if (!converts && !options.to.empty())
    throw std::invalid_argument(
        fmt::format("--to belongs to convert; {} gives its operands' format", options.operation));
  task.to = converts ? parse_number_type(options.to) : task.from;
  task.rounding = options.rounding.rounding();
  result.seed = options.rounding.seed;
  result.check = options.check;
  result.strict_nan = options.strict_nan;
  return result;
}

/// What was meant, if words are written as people write numbers: with a point, or with too few digits for code words.
std::string hint(const EvalArguments& options) {
  constexpr std::pair<std::string_view, const char*> operators[] = {
      {"add", " + "}, {"sub", " - "}, {"mul", " * "}, {"div", " / "}};
  std::string with = "(", expression;
  for (const auto& [name, sign] : operators)
    if (name == options.operation) with = sign;
  for (const std::string& operand : options.operands)
    expression += (expression.empty() ? "" : with == "(" ? ", " : with) + operand;
  if (with == "(") {
    std::string name(info(parse_operation(options.operation)).python);
    expression = name + "(" + expression + ")";
  }
  return fmt::format("; of numbers: halfulp calc '{}' --format {}", expression, options.format);
}

/// Whether every operand looks like a number: decimal digits, and a point or too few of them for a code word.
bool look_like_numbers(const std::vector<std::string>& operands, std::size_t digits) {
  return std::ranges::all_of(operands, [&](const std::string& word) {
    return !word.empty() && word.find_first_not_of("0123456789.-") == word.npos &&
           (word.find_first_of(".-") != word.npos || word.size() < digits);
  });
}

void eval(const EvalArguments& options, int& status) {
  LineEvaluator evaluator(eval_options(options));
  if (options.operands.empty()) {
    answer_input(evaluator);
  } else {
    const Task task = eval_options(options).task;
    const bool numbers = info(task.operation).result == ResultKind::format && !options.check &&
                         look_like_numbers(options.operands, static_cast<std::size_t>(hex_digits(task.from)));
    std::string line, out;
    for (const std::string& operand : options.operands) line += operand + ' ';
    try {
      evaluator.line(line, out);
    } catch (const std::invalid_argument& error) {
      if (!numbers) throw;
      throw std::invalid_argument(error.what() + hint(options));
    }
    if (evaluator.cases() == 0) throw std::invalid_argument("the operands are empty");
    if (numbers) print_error("the operands are code words" + hint(options));
    write_output(out);
  }
  if (options.check) conclude_check(evaluator.cases(), evaluator.differing(), status);
}

}  // namespace

void add_eval_command(CLI::App& app, int& status) {
  auto options = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "one operation on code words, in TestFloat's line format");
  std::string names;
  for (const OperationInfo& row : operations) names += (names.empty() ? "" : ", ") + std::string(row.name);
  command->add_option("OP", options->operation, names)->required();
  command->add_option("OPERAND", options->operands,
                      "one case: hexadecimal code words; without any, one case a line is read from standard input");
  command
      ->add_option("--format", options->format,
                   "the operands' format, such as fp16 or e5m3 (see halfulp formats), or i32, i64, u32, u64")
      ->type_name("FORMAT")
      ->required();
  command->add_option("--to", options->to, "the result's format, of convert: a format or i32, i64, u32, u64")
      ->type_name("FORMAT");
  options->rounding.add_to(*command);
  options->rounding.add_integer_options_to(*command);
  command->add_flag("--check", options->check,
                    "the columns after the operands are the expected result and flags: print the lines that differ");
  command->add_flag("--strict-nan", options->strict_nan, "in a check, a NaN equals only the same NaN");
  command->footer(
      "Writes operands, result and flags: 10 invalid, 08 divide by zero, 04 overflow, 02 underflow, 01 inexact.\n"
      "Exit status: 0 done, 1 in a check something differs, 2 bad usage or bad input.");
  command->callback([options, &status] { eval(*options, status); });
}

}  // namespace halfulp::cli
