// The parameters of an experiment, for people.
#include <halfulp/experiments/cli/run.hpp>

#include <fmt/format.h>

namespace halfulp::cli {
namespace {

constexpr std::size_t text_width = 96;

/// `text` in lines of at most text_width characters, every one after `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > text_width) {
      out += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
    begin = end + 1;
  }
  return line.empty() ? out : out + margin + line + "\n";
}

}  // namespace

std::string experiment_help(const Experiment& experiment) {
  std::string text = fmt::format("{}: {}\n{}\nParameters, as --set NAME=VALUE or members of a --config file:\n", experiment.name,
                                 experiment.title, wrapped(experiment.question, 0));
  for (const Parameter& parameter : experiment.parameters()) {
    text += fmt::format("\n  {} = {}\n", parameter.name, parameter.default_value.empty() ? "\"\"" : parameter.default_value);
    text += wrapped(parameter.help, 6) + wrapped(accepted_values(parameter), 6);
  }
  return text;
}

}  // namespace halfulp::cli
