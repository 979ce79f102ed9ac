#include <halfulp/commands/manual.hpp>

#include <halfulp/commands/examples.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/environment.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace halfulp::cli {
namespace {

constexpr std::size_t farthest_column = 26;  ///< descriptions in --help begin here at the latest

bool repeats(const CLI::Option& option) { return option.get_expected_max() > 1 && option.get_allow_extra_args(); }

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

/// The name on the left and the text to its right, or below it where the name is long.
std::string entry_text(const Manual::Entry& entry, std::size_t column) {
  const std::string text = wrapped(entry.text, column), name = "  " + entry.name;
  if (text.empty()) return name + "\n";
  if (display_width(name) + 2 > column) return name + "\n" + text;
  return name + text.substr(display_width(name));
}

std::string section(const std::string& title, const std::vector<Manual::Entry>& entries, std::size_t column,
                    const Style& style) {
  if (entries.empty()) return {};
  std::string text = "\n" + style.painted(title + ":", Paint::heading) + "\n";
  for (const Manual::Entry& entry : entries) text += entry_text(entry, column);
  return text;
}

}  // namespace

std::string argument_name(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  std::string name = option.get_single_name();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name + (repeats(option) ? "..." : "");
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() != 0; }

std::string value_name(const CLI::Option& option) {
  if (!takes_value(option)) return {};
  const std::string type = option.get_type_name().substr(
      0, option.get_type_name().find(':'));  // the words of a check follow: "INT:INT in [1 - 9]"
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
    auto group = std::find_if(manual.commands.begin(), manual.commands.end(),
                              [&](const Manual::Group& g) { return g.title == command->get_group(); });
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
  std::string text = wrapped(manual.description, 0) + "\n" + style.painted("Usage:", Paint::heading) + " " +
                     manual.usage + "\n" + section("Arguments", manual.arguments, column, style);
  for (const Manual::Group& group : manual.commands) text += section(group.title, group.commands, column, style);
  text += section("Options", manual.options, column, style);
  if (!manual.notes.empty() && !manual.notes.front().empty()) text += "\n";
  for (const std::string& line : manual.notes) text += line.empty() || line[0] == ' ' ? line + "\n" : wrapped(line, 0);
  if (!manual.statuses.empty()) text += "\n" + wrapped("Exit status: " + manual.statuses, 0);
  if (!manual.examples.empty()) text += "\n" + style.painted("Examples:", Paint::heading) + "\n";
  for (const std::string& line : manual.examples) text += "  " + line + "\n";
  return text;
}

namespace {

/// Escapes text for roff: backslashes, dashes that can be copied, no request at the beginning of a line.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\'') out += "\\(aq";
    else if (c == '^') out += "\\(ha";
    else if (c == '~') out += "\\(ti";
    else if (c == '`') out += "\\(ga";
    else if (c == '"') out += "\\(dq";
    else if (c == ',') out += ",\\:";  // long lists may break here
    else out += c;
  }
  return !out.empty() && out[0] == '.' ? "\\&" + out : out;
}

std::string paragraph(std::string_view text) { return text.empty() ? "" : escaped(text) + "\n"; }

std::string heading(std::string_view title) { return fmt::format(".SH {}\n", title); }

std::string tagged(std::string_view name, std::string_view text) {
  return ".TP\n.B " + escaped(name) + "\n" + paragraph(text);
}

std::string entries(const std::vector<Manual::Entry>& list) {
  std::string text;
  for (const Manual::Entry& entry : list) text += tagged(entry.name, entry.text);
  return text;
}

/// Lines as they are, in a fixed-width font.
std::string verbatim(const std::vector<std::string>& lines) {
  std::string text = ".nf\n";
  for (const std::string& line : lines) text += paragraph(line);
  return text + ".fi\n";
}

std::string page_name(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

/// With a capital and a full stop.
std::string sentence(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text.empty() || text.back() == '?' ? text : text + ".";
}

std::string description(const Manual& manual) {
  std::string text = heading("DESCRIPTION") + paragraph(sentence(manual.description));
  std::vector<std::string> kept;
  const auto keep = [&] {
    if (!kept.empty()) text += ".PP\n" + verbatim(kept);
    kept.clear();
  };
  for (const std::string& line : manual.notes) {
    if (!line.empty() && line[0] == ' ') {
      kept.push_back(line);
      continue;
    }
    keep();
    if (!line.empty()) text += ".PP\n" + paragraph(line);
  }
  keep();
  return text;
}

}  // namespace

std::string man_text(const Manual& manual, std::span<const Parameter> parameters,
                     const std::vector<std::string>& see_also) {
  const std::string name = page_name(manual.program);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(".TH {} 1 \"\" \"halfulp {}\" \"halfulp\"\n", escaped(title), program_version());
  text += ".nh\n.ad l\n";  // no hyphens in commands, no stretched lines
  text += heading("NAME") + escaped(name) + " \\- " + paragraph(manual.description);
  text += heading("SYNOPSIS") + ".B " + escaped(manual.usage) + "\n" + description(manual);
  if (!manual.arguments.empty()) text += heading("ARGUMENTS") + entries(manual.arguments);
  if (!manual.commands.empty()) text += heading("COMMANDS");
  for (const Manual::Group& group : manual.commands)
    text += ".SS " + escaped(group.title) + "\n" + entries(group.commands);
  text += heading("OPTIONS") + entries(manual.options);
  if (!parameters.empty())
    text += heading("PARAMETERS") + "Set by \\-\\-set NAME=VALUE, or as members of a \\-\\-config file.\n";
  for (const Parameter& parameter : parameters)
    text += tagged(parameter.name, fmt::format("{}; {}; default: {}", parameter.help, accepted_values(parameter),
                                               parameter.default_value.empty() ? "\"\"" : parameter.default_value));
  if (!manual.examples.empty()) text += heading("EXAMPLES") + verbatim(manual.examples);
  text += heading("EXIT STATUS");
  if (!manual.statuses.empty()) text += paragraph(manual.statuses);
  else
    for (const auto& [status, meaning] : exit_statuses) text += tagged(std::to_string(status), meaning);
  if (!manual.commands.empty())
    text += heading("ENVIRONMENT") +
            tagged("NO_COLOR",
                   "where it is not empty, output is plain text without colour, as it is when it is redirected") +
            tagged("TERM", "dumb: the same") +
            tagged("HALFULP_INSTRUCTION_SET",
                   "the best instruction set that array functions may use, one of those that halfulp --version lists; "
                   "results do not depend on it");
  text += heading("SEE ALSO");
  for (std::size_t i = 0; i < see_also.size(); ++i)
    text += ".BR " + escaped(see_also[i]) + " (1)" + (i + 1 < see_also.size() ? ",\n" : "\n");
  return text;
}

}  // namespace halfulp::cli
