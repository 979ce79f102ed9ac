#include <halfulp/commands/calculation.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct CalcArguments {
  std::vector<std::string> words;
  std::string formats = "fp32,bf16,fp16,e4m3";
  RoundingOptions rounding;
  bool trace = false, json = false;
};

void calc(const CLI::App& command, const CalcArguments& options) {
  std::string text;
  for (const std::string& word : with_negative_numbers(command, options.words))
    text += (text.empty() ? "" : " ") + word;
  if (text.find_first_not_of(" \t") == text.npos)
    throw std::invalid_argument("EXPRESSION is missing; accepted: arithmetic such as '0.1 + 0.2' or 'sqrt(2) * 2^-25'");
  const Expression expression = parse_expression(text);
  const Rounding rounding = options.rounding.rounding();
  std::vector<Calculation> all;
  for (const FloatFormat& format : formats_named(options.formats))
    all.push_back(calculate(expression, format, rounding, options.rounding.seed));
  write_output(options.json ? pretty(to_json(expression, all)) + "\n"
                            : calculation_text(expression, all, options.trace));
}

}  // namespace

void add_calc_command(CLI::App& app, int&) {
  auto options = std::make_shared<CalcArguments>();
  auto* command = app.add_subcommand("calc", "arithmetic in one format or several, every step rounded");
  command
      ->add_option("EXPRESSION", options->words,
                   "numbers (0.1, 1e-8, 0x1.8p-3, 2^-25), code words (0x3C00), + - * / ( ) and functions: abs, exp, "
                   "fma(a, b, c), log2, max(a, b), min(a, b), rcp, rem(a, b), round_to_integral, rsqrt, sqrt, "
                   "sum(x, n), which adds up n times x")
      ->option_text("EXPRESSION");
  command->add_option("--format", options->formats, "formats, separated by commas (see halfulp formats)")
      ->type_name("F[,F]")
      ->capture_default_str();
  options->rounding.add_to(*command);
  command->add_flag("--trace", options->trace, "shows every step, for several formats too");
  command->add_flag("--json", options->json, "the same as JSON, with every step");
  command->allow_extras();
  command->footer(
      "Every number is rounded to the format, and so is the result of every operation; 2^-25 counts as one number. "
      "sum(x, n) adds x up n times from left to right, and rounds each step. An error is the difference from the "
      "result without any rounding. Quote the expression, because * and ( mean something to a shell.");
  command->callback([command, options] { calc(*command, *options); });
}

}  // namespace halfulp::cli
