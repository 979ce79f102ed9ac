#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/lines.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/options.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

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

void eval(const EvalArguments& options, int& status) {
  LineEvaluator evaluator(eval_options(options));
  if (options.operands.empty()) {
    answer_input(evaluator);
  } else {
    std::string line, out;
    for (const std::string& operand : options.operands) line += operand + ' ';
    evaluator.line(line, out);
    if (evaluator.cases() == 0) throw std::invalid_argument("the operands are empty");
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
