#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/options.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct ExplainArguments {
  std::vector<std::string> values;
  std::string format;
  RoundingOptions rounding;
  bool json = false;
};

/// -inf and -.5 look like options to the command line's parser, which hands them over as unknown words.
bool is_negative_number(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         (word[1] == '.' || word[1] == 'i' || word[1] == 'I' || word[1] == 'n' || word[1] == 'N');
}

void explain_command(const CLI::App& command, const ExplainArguments& options) {
  std::vector<std::string> values = options.values;
  for (const std::string& word : command.remaining()) {
    if (word == "--") continue;
    if (is_negative_number(word)) {
      values.push_back(word);
      continue;
    }
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    throw std::invalid_argument(unknown_name("option", word, std::move(names)));
  }
  if (values.size() != 1)
    throw std::invalid_argument(
        "explain takes one VALUE, not " + std::to_string(values.size()) +
        "; accepted: a number such as 0.1 or 0x1.8p-3, inf, nan, or a code word such as 0x3C00");
  const FloatFormat format = parse_format(options.format);
  const Explanation explanation = explain(format, options.rounding.rounding(), values.front(),
                                          rounding_bits(options.rounding.seed, 0, 0));
  write_output(options.json ? pretty(to_json(explanation)) + "\n" : render(explanation, Style::of_output()));
}

}  // namespace

void add_explain_command(CLI::App& app, int&) {
  auto options = std::make_shared<ExplainArguments>();
  auto* command = app.add_subcommand("explain", "one number in one format: bits, neighbours, every rounding mode");
  command->add_option("VALUE", options->values, "a number (0.1, -6.5e4, 0x1.8p-3, inf, nan) or a code word (0x3C00)")
      ->option_text("VALUE");
  command->add_option("--format", options->format, "a format such as fp16 or e5m3 (see halfulp formats)")
      ->type_name("FORMAT")
      ->required();
  options->rounding.add_to(*command);
  command->add_flag("--json", options->json, "the same as JSON");
  command->allow_extras();
  command->callback([command, options] { explain_command(*command, *options); });
}

}  // namespace halfulp::cli
