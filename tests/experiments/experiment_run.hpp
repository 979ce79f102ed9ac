// Runs of one experiment inside a test: its report, or the line by which it refuses settings.
#pragma once

#include <halfulp/report/experiment.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::tests {

/// The report of an experiment set so.
inline Json report_of(const Experiment& experiment, const std::vector<std::string>& settings) {
  Config config(experiment.parameters());
  for (const std::string& setting : settings) config.set(setting);
  Trace trace;
  Report report(std::string(experiment.name), "test", config);
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  return report.to_json();
}

inline Json report_of(std::string_view name, const std::vector<std::string>& settings) {
  return report_of(find_experiment(name), settings);
}

/// Its refusal, or "accepted".
inline std::string refusal_of(std::string_view name, const std::vector<std::string>& settings) {
  try {
    report_of(name, settings);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

}  // namespace halfulp::tests
