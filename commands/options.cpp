#include <halfulp/commands/options.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace halfulp::cli {

std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw std::invalid_argument(
        fmt::format("{} is '{}'; accepted: an integer from {} to {}", option, shown(text), least, most));
  return value;
}

double real_number(std::string_view option, std::string_view text, double least, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most))
    throw std::invalid_argument(
        fmt::format("{} is '{}'; accepted: a number from {} to {}", option, shown(text), least, most));
  return value;
}

CLI::Option* add_real_option(CLI::App& app, std::string name, double& value, double least, double most,
                             std::string description) {
  const auto take = [name, &value, least, most](const std::string& text) {
    value = real_number(name, text, least, most);
  };
  return app.add_option_function<std::string>(name, take, std::move(description))
      ->default_str(fmt::format("{}", value));
}

CLI::Option* add_text_option(CLI::App& app, std::string name, std::string& text, std::string description,
                             std::string accepted) {
  const auto take = [name, &text, accepted = std::move(accepted)](const std::string& given) {
    if (given.empty()) throw std::invalid_argument(fmt::format("{} is ''; accepted: {}", name, accepted));
    text = given;
  };
  return app.add_option_function<std::string>(name, take, std::move(description));
}

void require_file(const std::string& option, const std::string& path) {
  if (path == "-")
    throw std::invalid_argument(
        option + " is '-', and standard output is for the summary; accepted: a file's name, ./- for one of that name");
  if (path.empty()) throw std::invalid_argument(option + ": a file's name is missing");
}

void add_check_options(CLI::App& app, CheckOptions& options, const std::string& what_check_reads) {
  app.add_flag("--check", options.check, what_check_reads);
  app.add_flag("--strict-nan", options.strict_nan, "in a check, a NaN equals only the same NaN");
  add_number_option(app, "--show", options.show, 0, UINT64_MAX,
                    "in a check, writes at most N of the lines that differ (default: all)");
}

void require_check(const CheckOptions& options) {
  if (options.check) return;
  if (options.strict_nan) throw std::invalid_argument("--strict-nan belongs to --check");
  if (options.show != UINT64_MAX) throw std::invalid_argument("--show belongs to --check");
}

std::vector<std::string> with_negative_numbers(const CLI::App& command, std::vector<std::string> words) {
  for (const std::string& word : command.remaining()) {
    if (word == "--") continue;
    if (word.size() > 1 && word[0] == '-' && std::string_view(".(iInN").find(word[1]) != std::string_view::npos) {
      words.push_back(word);
      continue;
    }
    if (word.size() > 2 && word.starts_with("--") &&
        std::string_view(".(0123456789").find(word[2]) != std::string_view::npos)
      throw std::invalid_argument(fmt::format(
          "'{}' begins with two signs, as an option does; accepted: one sign, -(-1), or the word -- before it",
          shown(word)));
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    throw std::invalid_argument(unknown_name("option", word, std::move(names)));
  }
  return words;
}

std::vector<FloatFormat> formats_named(const std::string& names) {
  std::vector<FloatFormat> formats;
  for (const std::string& name : name_list(names, ',', "--format")) {
    const FloatFormat format = parse_format(name);
    if (std::ranges::find(formats, format) != formats.end())
      throw std::invalid_argument("--format: " + format_name(format) + " is there twice");
    formats.push_back(format);
  }
  if (formats.empty())
    throw std::invalid_argument("--format is empty; accepted: names of formats, separated by commas");
  return formats;
}

namespace {

/// "ieee, saturate": a table's names for the help text.
template <class T, std::size_t N>
std::string listed(const std::array<Named<T>, N>& table) {
  std::string text;
  for (const auto& row : table) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

}  // namespace

void RoundingOptions::add_to(CLI::App& app) {
  app.add_option("--round", round,
                 "rounding mode: " + listed(rounding_modes) + "; or, for short, " + listed(short_rounding_modes))
      ->type_name("MODE")
      ->capture_default_str();
  app.add_option("--overflow", overflow, "what overflow becomes: " + listed(overflow_rules))
      ->type_name("RULE")
      ->capture_default_str();
  app.add_flag("--flush-inputs", flush_inputs, "subnormal operands count as zero (DAZ)");
  app.add_flag("--flush-outputs", flush_outputs, "tiny results become zero (FTZ)");
  app.add_option("--tininess", tininess, "when a result is tiny: before or after rounding")
      ->type_name("RULE")
      ->capture_default_str();
  app.add_option("--nan", nan, "which NaN operations return: " + listed(nan_rules))
      ->type_name("RULE")
      ->capture_default_str();
  app.add_option("--stochastic-variant", variant, "how the tail meets the random bits: " + listed(stochastic_variants))
      ->type_name("VARIANT")
      ->capture_default_str();
  add_number_option(app, "--random-bits", random_bits, 1, max_random_bits,
                    "random bits of stochastic rounding, 1 to 32")
      ->default_str(std::to_string(random_bits));
  add_number_option(app, "--seed", seed, 0, std::numeric_limits<std::uint64_t>::max(),
                    "seed of stochastic rounding: case i takes word i of Philox4x32-10, stream 0")
      ->default_str(std::to_string(seed));
}

void RoundingOptions::add_integer_options_to(CLI::App& app) {
  app.add_option("--int-overflow", int_overflow, "what an integer out of range becomes: " + listed(int_overflow_rules))
      ->type_name("RULE")
      ->default_str(std::string(int_overflow_rules.front().name));
  app.add_flag("--exact", exact, "rounding to an integer signals inexact (IEEE 754 roundToIntegralExact)");
}

Rounding RoundingOptions::rounding() const {
  Rounding result;
  result.mode = parse_rounding_mode(round);
  result.overflow = value_named(overflow_rules, "overflow rule", overflow);
  result.flush_inputs = flush_inputs;
  result.flush_outputs = flush_outputs;
  result.tininess = value_named(tininess_rules, "tininess rule", tininess);
  result.nan = value_named(nan_rules, "NaN rule", nan);
  if (int_overflow) result.int_overflow = value_named(int_overflow_rules, "integer overflow rule", *int_overflow);
  result.integer_inexact = exact;
  result.variant = value_named(stochastic_variants, "stochastic variant", variant);
  result.random_bits = random_bits;
  return result;
}

}  // namespace halfulp::cli
