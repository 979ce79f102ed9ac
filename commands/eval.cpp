#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/lines.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/options.hpp>

#include <halfulp/hardware/operands.hpp>
#include <halfulp/support/work.hpp>

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
  CheckOptions check;
  bool exhaustive = false;
  std::uint64_t sample = 0;  ///< 0: none
};

EvalOptions eval_options(const EvalArguments& options) {
  EvalOptions result{options.check, {}};
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
  const bool to_integer = std::holds_alternative<IntegerType>(task.to);
  if (task.rounding.integer_inexact && !to_integer && task.operation != Operation::round_to_integral)
    throw std::invalid_argument("--exact belongs to round-to-integral, and to convert with --to an integer type");
  if (options.rounding.int_overflow && !to_integer)
    throw std::invalid_argument("--int-overflow belongs to convert with --to an integer type");
  result.seed = options.rounding.seed;
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

/// The cases that --exhaustive or --sample asks for: those of `halfulp verify`.
OperandSet operands_to_write(const EvalArguments& options, const Task& task) {
  const char *asked = options.exhaustive ? "exhaustive" : "sample",
             *one = "accepted: one of operands, --check, --exhaustive and --sample N";
  if (!options.operands.empty() || options.check.check || (options.exhaustive && options.sample != 0))
    throw std::invalid_argument(fmt::format("--{} makes the operands itself; {}", asked, one));
  if (!std::holds_alternative<FloatFormat>(task.from))
    throw std::invalid_argument(fmt::format(
        "--{} makes operands of floating-point formats only; for {}, write the operands", asked, options.format));
  if (options.sample != 0) return sampled_operands(task, options.sample, options.rounding.seed);
  const auto count = number_of_operands(task);
  if (!count || *count > most_operands)
    throw std::invalid_argument(
        fmt::format("{} of {} has more than 2^32 cases; accepted: --sample N", options.operation, options.format));
  return all_operands(task);
}

void write_cases(LineEvaluator& evaluator, const OperandSet& operands) {
  constexpr std::uint64_t block = 1 << 14;
  std::vector<std::uint64_t> a(block), b(block), c(block);
  std::string out;
  note_interrupts();
  for (std::uint64_t begin = 0; begin < operands.count; begin += block) {
    stop_if_interrupted();
    const auto size = static_cast<std::size_t>(std::min(block, operands.count - begin));
    operands.fill(begin, std::span(a).first(size), std::span(b).first(size), std::span(c).first(size));
    for (std::size_t i = 0; i < size; ++i) evaluator.answer({a[i], b[i], c[i]}, out);
    write_output(out);
    out.clear();
  }
}

/// The one case of the command line.
void answer_arguments(LineEvaluator& evaluator, const EvalArguments& options, const Task& task) {
  const bool numbers = info(task.operation).result == ResultKind::format && !options.check.check &&
                       look_like_numbers(options.operands, static_cast<std::size_t>(hex_digits(task.from)));
  std::string line, out;
  for (const std::string& operand : options.operands) line += operand + ' ';
  try {
    evaluator.numbered_line(1, line, out);
  } catch (const std::invalid_argument& error) {
    if (!numbers) throw;
    throw std::invalid_argument(error.what() + hint(options));
  }
  if (evaluator.cases() == 0) throw std::invalid_argument("the operands are empty");
  if (numbers) print_error("the operands are code words" + hint(options));
  write_output(out);
}

void eval(const EvalArguments& options, int& status) {
  require_check(options.check);
  const EvalOptions lines = eval_options(options);
  LineEvaluator evaluator(lines);
  if (options.exhaustive || options.sample != 0) return write_cases(evaluator, operands_to_write(options, lines.task));
  if (options.operands.empty()) return answer_cases(evaluator, options.check, status);
  answer_arguments(evaluator, options, lines.task);
  if (options.check.check) conclude_check(evaluator, status);
}

}  // namespace

void add_eval_command(CLI::App& app, int& status) {
  auto options = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "one operation on code words, in TestFloat's line format");
  std::string names;
  for (const OperationInfo& row : operations) names += (names.empty() ? "" : ", ") + std::string(row.name);
  command->add_option("OP", options->operation, names)->required();
  command->add_option("OPERAND", options->operands,
                      "code words of one case, in hexadecimal; without operands, standard input has one case per line");
  command
      ->add_option("--format", options->format,
                   "the operands' format, such as fp16 or e5m3 (see halfulp formats), or i32, i64, u32, u64")
      ->type_name("FORMAT")
      ->required();
  command->add_option("--to", options->to, "only for convert: the format of the result, or i32, i64, u32, u64")
      ->type_name("FORMAT");
  options->rounding.add_to(*command);
  options->rounding.add_integer_options_to(*command);
  command->add_flag("--exhaustive", options->exhaustive,
                    "writes every case, at most 2^32, instead of reading cases: test vectors for hardware");
  add_number_option(*command, "--sample", options->sample, 1, most_operands,
                    "writes N cases, or all if there are no more: combinations of boundary cases first, then random "
                    "ones, many of which are ties and cancellations; all drawn by --seed");
  add_check_options(*command, options->check,
                    "the columns after the operands are the result and flags of your hardware or simulation: writes "
                    "the lines that differ");
  command->footer(
      "Writes operands, result and flags: 10 invalid, 08 divide by zero, 04 overflow, 02 underflow, 01 inexact.\n"
      "Exit status: 0 done, 1 in a check something differs, 2 bad usage or bad input.");
  command->callback([options, &status] { eval(*options, status); });
}

}  // namespace halfulp::cli
