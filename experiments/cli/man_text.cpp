#include <halfulp/experiments/cli/man_text.hpp>

#include <halfulp/experiments/report/environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace halfulp::cli {
namespace {

/// Text that roff reads as itself: backslashes, dashes that one can copy, no request at the beginning of a line.
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

std::string tagged(std::string_view name, std::string_view text) { return ".TP\n.B " + escaped(name) + "\n" + paragraph(text); }

std::string entries(const std::vector<Manual::Entry>& list) {
  std::string text;
  for (const Manual::Entry& entry : list) text += tagged(entry.name, entry.text);
  return text;
}

/// Lines as they are, in the font of a terminal.
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

std::string man_text(const Manual& manual, std::span<const Parameter> parameters, const std::vector<std::string>& see_also) {
  const std::string name = page_name(manual.program);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(".TH {} 1 \"\" \"halfulp {}\" \"halfulp\"\n", escaped(title), program_version());
  text += ".nh\n.ad l\n";  // no hyphens in commands, no stretched lines
  text += heading("NAME") + escaped(name) + " \\- " + paragraph(manual.description);
  text += heading("SYNOPSIS") + ".B " + escaped(manual.usage) + "\n" + description(manual);
  if (!manual.arguments.empty()) text += heading("ARGUMENTS") + entries(manual.arguments);
  if (!manual.commands.empty()) text += heading("COMMANDS");
  for (const Manual::Group& group : manual.commands) text += ".SS " + escaped(group.title) + "\n" + entries(group.commands);
  text += heading("OPTIONS") + entries(manual.options);
  if (!parameters.empty()) text += heading("PARAMETERS") + "Set by \\-\\-set NAME=VALUE, or as members of a \\-\\-config file.\n";
  for (const Parameter& parameter : parameters)
    text += tagged(parameter.name, fmt::format("{}; {}; default: {}", parameter.help, accepted_values(parameter), parameter.default_value.empty() ? "\"\"" : parameter.default_value));
  if (!manual.examples.empty()) text += heading("EXAMPLES") + verbatim(manual.examples);
  text += heading("EXIT STATUS");
  if (!manual.statuses.empty()) text += paragraph(manual.statuses);
  else
    for (const auto& [status, meaning] : exit_statuses) text += tagged(std::to_string(status), meaning);
  if (!manual.commands.empty())
    text += heading("ENVIRONMENT") + tagged("NO_COLOR", "where it is not empty, output is plain text without colour, as it is when it is redirected") +
            tagged("TERM", "dumb: the same");
  text += heading("SEE ALSO");
  for (std::size_t i = 0; i < see_also.size(); ++i) text += ".BR " + escaped(see_also[i]) + " (1)" + (i + 1 < see_also.size() ? ",\n" : "\n");
  return text;
}

}  // namespace halfulp::cli
