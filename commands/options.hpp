// Options that several commands share: numbers, files, checks, roundings.
#pragma once

#include <halfulp/commands/lines.hpp>
#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// The whole of `text` as an integer from `least` to `most`. Throws std::invalid_argument in one line:
/// "--seed is '-1'; accepted: an integer from 0 to 18446744073709551615".
std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most);

/// Adds the option `name`; what it is given goes through whole_number into `value`, which outlives the parsing.
template <class T>
CLI::Option* add_number_option(CLI::App& app, std::string name, T& value, std::uint64_t least, std::uint64_t most,
                               std::string description) {
  const auto take = [name, &value, least, most](const std::string& text) {
    value = static_cast<T>(whole_number(name, text, least, most));
  };
  return app.add_option_function<std::string>(name, take, std::move(description))->type_name("N");
}

/// The whole of `text` as a number from `least` to `most`. Throws std::invalid_argument in one line: "--sigma is 'nan';
/// accepted: a number from 0.01 to 16".
double real_number(std::string_view option, std::string_view text, double least, double most);

/// The same with real_number.
CLI::Option* add_real_option(CLI::App& app, std::string name, double& value, double least, double most,
                             std::string description);

/// Adds an option or an argument of text that is not empty, as that of a variable without a value would be. Otherwise
/// it throws std::invalid_argument in one line: "--show is ''; accepted: a key". `text` outlives the parsing.
CLI::Option* add_text_option(CLI::App& app, std::string name, std::string& text, std::string description,
                             std::string accepted);

/// Throws std::invalid_argument in one line if the file of an option is "-", where standard output is for a summary.
void require_file(const std::string& option, const std::string& path);

/// Adds --check, --strict-nan and --show.
void add_check_options(CLI::App& app, CheckOptions& options, const std::string& what_check_reads);
/// Throws std::invalid_argument in one line for --strict-nan or --show without --check.
void require_check(const CheckOptions& options);

/// The positional words of a command that allows extras: -inf, -.5 and -(1/3) look like options to the command line's
/// parser, which hands them over as extras. Throws std::invalid_argument naming the nearest option for any other extra.
std::vector<std::string> with_negative_numbers(const CLI::App& command, std::vector<std::string> words);

/// The formats of a --format that takes several: "fp16,bf16". Throws std::invalid_argument in one line for an unknown
/// one, for one that is there twice, and for none.
std::vector<FloatFormat> formats_named(const std::string& names);

// The options of `calc`, `eval` and `explain` that decide how a result is rounded.

struct RoundingOptions {
  std::string round = "nearest-even", overflow = "ieee", tininess = "after", nan = "canonical", variant = "truncate";
  std::optional<std::string> int_overflow;
  bool flush_inputs = false, flush_outputs = false, exact = false;
  int random_bits = Rounding{}.random_bits;
  std::uint64_t seed = 1;

  /// Adds --round, --overflow, --flush-inputs, --flush-outputs, --tininess, --nan, --stochastic-variant, --random-bits
  /// and --seed.
  void add_to(CLI::App& app);
  /// Adds --int-overflow and --exact, which matter to integers only.
  void add_integer_options_to(CLI::App& app);
  /// What was asked for. Throws std::invalid_argument naming the nearest accepted word.
  Rounding rounding() const;
};

}  // namespace halfulp::cli
