#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct ExplainArguments {
  std::vector<std::string> values;
  std::string formats;
  RoundingOptions rounding;
  bool json = false;
};

void explain_command(const CLI::App& command, const ExplainArguments& options) {
  const std::vector<std::string> values = with_negative_numbers(command, options.values);
  if (values.size() != 1)
    throw std::invalid_argument(
        "explain takes one VALUE, not " + std::to_string(values.size()) +
        "; accepted: a number such as 0.1, 1/3, 2^-25 or 0x1.8p-3, inf, nan, or a code word such as 0x3C00");
  if (options.rounding.rounding().flush_inputs && !is_code_word(values.front()))
    throw std::invalid_argument(
        "--flush-inputs is about operands; accepted with it: a code word such as 0x0001, not '" +
        shown(values.front()) + "'");
  const std::vector<FloatFormat> formats = formats_named(options.formats);
  std::string text;
  Json json = Json::array();
  for (const FloatFormat& format : formats) {
    const Explanation explanation = explain(format, options.rounding.rounding(), values.front(),
                                            rounding_bits(options.rounding.seed, 0, 0));
    if (options.json) json.push_back(to_json(explanation));
    else text += (text.empty() ? "" : "\n") + render(explanation, Style::of_output());
  }
  // A sum or product, other than the plus of an exponent, is no single number.
  const std::string& value = values.front();
  std::size_t plus = value.find('+', 1);
  while (plus != value.npos && std::string_view("eEpP^").find(value[plus - 1]) != std::string_view::npos)
    plus = value.find('+', plus + 1);
  if (plus != value.npos || value.find_first_of("*(") != value.npos)
    print_error("rounded once, at the end; step by step: halfulp calc '" + value + "' --format " + options.formats);
  write_output(options.json ? pretty(formats.size() == 1 ? json.front() : json) + "\n" : text);
}

}  // namespace

void add_explain_command(CLI::App& app, int&) {
  auto options = std::make_shared<ExplainArguments>();
  auto* command = app.add_subcommand("explain", "one number in one format: bits, neighbours, every rounding mode");
  command
      ->add_option("VALUE", options->values,
                   "a number (0.1, -6.5e4, 1/3, 2^-25, 0x1.8p-3, inf, nan) or a code word (0x3C00)")
      ->option_text("VALUE");
  command
      ->add_option("--format", options->formats,
                   "a format such as fp16 or e5m3 (see halfulp formats), or several, separated by commas")
      ->type_name("F[,F]")
      ->required();
  options->rounding.add_to(*command);
  command->add_flag("--json", options->json, "the same as JSON; of several formats, a list");
  command->allow_extras();
  command->callback([command, options] { explain_command(*command, *options); });
}

}  // namespace halfulp::cli
