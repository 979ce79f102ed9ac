#include <halfulp/experiments/cli/manual.hpp>

#include <halfulp/experiments/cli/examples.hpp>
#include <halfulp/experiments/cli/output.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace halfulp::cli {
namespace {

constexpr std::size_t farthest_column = 26;  ///< where descriptions begin in --help at most

bool repeats(const CLI::Option& option) { return option.get_expected_max() > 1 && option.get_allow_extra_args(); }

/// "REPORT..."; where its declaration says how it is to be shown, that.
std::string argument_name(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  std::string name = option.get_single_name();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name + (repeats(option) ? "..." : "");
}

std::string argument_usage(const CLI::Option& option) {
  const bool required = option.get_required() || !option.get_option_text().empty();
  return required ? argument_name(option) : "[" + argument_name(option) + "]";
}

std::string usage_of(const CLI::App& app, const std::string& program) {
  std::string text = program + " [OPTIONS]", arguments;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) arguments += " " + argument_usage(*option);
    else if (option->get_required()) text += " --" + option->get_lnames().front() + " " + value_name(*option);
  }
  return text + arguments + (app.get_subcommands([](const CLI::App*) { return true; }).empty() ? "" : " COMMAND");
}

Manual::Entry entry_of(const CLI::Option& option) {
  Manual::Entry entry;
  if (option.get_positional()) {
    entry.name = argument_name(option);
  } else {
    for (const std::string& name : option.get_snames()) entry.name += (entry.name.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames()) entry.name += (entry.name.empty() ? "--" : ", --") + name;
    if (takes_value(option)) entry.name += " " + value_name(option);
  }
  entry.text = option.get_description();
  if (!option.get_default_str().empty()) entry.text += " (default: " + option.get_default_str() + ")";
  if (option.get_required() && !option.get_positional()) entry.text += " (required)";
  return entry;
}

/// Name to the left, text to the right of it, or below where the name is long.
std::string entry_text(const Manual::Entry& entry, std::size_t column) {
  const std::string text = wrapped(entry.text, column), name = "  " + entry.name;
  if (text.empty()) return name + "\n";
  if (display_width(name) + 2 > column) return name + "\n" + text;
  return name + text.substr(display_width(name));
}

std::string section(const std::string& title, const std::vector<Manual::Entry>& entries, std::size_t column, const Style& style) {
  if (entries.empty()) return {};
  std::string text = "\n" + style.painted(title + ":", Paint::heading) + "\n";
  for (const Manual::Entry& entry : entries) text += entry_text(entry, column);
  return text;
}

}  // namespace

bool takes_value(const CLI::Option& option) { return option.get_expected_max() != 0; }

std::string value_name(const CLI::Option& option) {
  if (!takes_value(option)) return {};
  const std::string type = option.get_type_name().substr(0, option.get_type_name().find(':'));  // a check's words follow: "INT:INT in [1 - 9]"
  return type.empty() || type == "TEXT" ? "TEXT" : type == "INT" || type == "UINT" ? "N" : type;
}

Manual manual_of(const CLI::App& app, std::string program) {
  Manual manual;
  manual.program = std::move(program);
  manual.description = app.get_description();
  manual.usage = usage_of(app, manual.program);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    (option->get_positional() ? manual.arguments : manual.options).push_back(entry_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    auto group = std::find_if(manual.commands.begin(), manual.commands.end(), [&](const Manual::Group& g) { return g.title == command->get_group(); });
    if (group == manual.commands.end()) group = manual.commands.insert(group, {command->get_group(), {}});
    group->commands.push_back({command->get_name(), command->get_description()});
  }
  constexpr std::string_view statuses = "Exit status: ";
  std::istringstream footer(app.get_footer());
  for (std::string line; std::getline(footer, line);) {
    if (line.substr(0, statuses.size()) == statuses) manual.statuses = line.substr(statuses.size());
    else manual.notes.push_back(line);
  }
  while (!manual.notes.empty() && manual.notes.back().empty()) manual.notes.pop_back();
  manual.examples = examples_of(app, manual.program);
  return manual;
}

std::string help_text(const Manual& manual, const Style& style) {
  std::size_t column = 0;
  const auto widen = [&](const std::vector<Manual::Entry>& entries) {
    for (const Manual::Entry& entry : entries) column = std::max(column, display_width(entry.name) + 4);
  };
  widen(manual.arguments), widen(manual.options);
  for (const Manual::Group& group : manual.commands) widen(group.commands);
  column = std::min(column, farthest_column);
  std::string text = wrapped(manual.description, 0) + "\n" + style.painted("Usage:", Paint::heading) + " " + manual.usage + "\n" + section("Arguments", manual.arguments, column, style);
  for (const Manual::Group& group : manual.commands) text += section(group.title, group.commands, column, style);
  text += section("Options", manual.options, column, style);
  if (!manual.notes.empty() && !manual.notes.front().empty()) text += "\n";
  for (const std::string& line : manual.notes) text += line.empty() || line[0] == ' ' ? line + "\n" : wrapped(line, 0);
  if (!manual.statuses.empty()) text += "\n" + wrapped("Exit status: " + manual.statuses, 0);
  if (!manual.examples.empty()) text += "\n" + style.painted("Examples:", Paint::heading) + "\n";
  for (const std::string& line : manual.examples) text += "  " + line + "\n";
  return text;
}

}  // namespace halfulp::cli
