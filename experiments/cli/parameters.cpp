// The parameters of an experiment, for people.
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/cli/run.hpp>

#include <fmt/format.h>

namespace halfulp::cli {
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
