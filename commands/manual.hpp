// A command's manual: gathered once from its declaration, shown by --help (help_text) and as a manual page (man_text).
#pragma once

#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/config.hpp>

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace halfulp::cli {

struct Manual {
  struct Entry {
    std::string name, text;  ///< "--round MODE" and what it is
  };
  struct Group {
    std::string title;
    std::vector<Entry> commands;
  };

  std::string program;      ///< "halfulp explain"
  std::string description;  ///< one line
  std::string usage;        ///< "halfulp explain [OPTIONS] --format FORMAT VALUE"
  std::vector<Entry> arguments, options;
  std::vector<Group> commands;
  std::vector<std::string> notes;  ///< one line per paragraph; lines that begin with a blank are not wrapped
  std::string statuses;            ///< exit statuses that this command defines itself: "0 recorded, 2 bad usage, ..."
  std::vector<std::string> examples;  ///< shell commands
};

/// `program` is how the command is called: "halfulp explain". A command's footer holds its notes and, after "Exit
/// status: ", its statuses.
Manual manual_of(const CLI::App& app, std::string program);

/// The text of --help, at most 80 columns wide except for lines that cannot be broken.
std::string help_text(const Manual& manual, const Style& style);

/// Whether an option takes a value. Flags take none.
bool takes_value(const CLI::Option& option);
/// Of a positional argument: "REPORT...", or the form that its declaration gives.
std::string argument_name(const CLI::Option& option);
/// The word for an option's value: "FORMAT", "FILE|DIR|-"; empty for flags.
std::string value_name(const CLI::Option& option);

/// The exit statuses that all commands share.
struct ExitStatus {
  int status;
  std::string_view meaning;
};
inline constexpr ExitStatus exit_statuses[] = {
    {0, "done, and every claim holds (or differs from a published figure, or is skipped)"},
    {1, "a claim fails, a comparison differs, a report is not valid"},
    {2, "bad usage or bad input, said in one line on standard error"},
    {3, "the device asked for is not here or broke down"},
    {70, "an internal error"},
    {130, "interrupted"},
};

// --help as help_text writes it, in CLI11's place.

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    return help_text(manual_of(*app, std::move(name)), Style::of_output());
  }
};

// Manual pages as man(7) source.

/// The page of a command, or of an experiment with its parameters, in section 1. `see_also` names other pages of that
/// section.
std::string man_text(const Manual& manual, std::span<const Parameter> parameters,
                     const std::vector<std::string>& see_also);

}  // namespace halfulp::cli
