// Runs the experiment `underflow` within a test, and finds cells of its tables.
#pragma once

#include <halfulp/report/experiment.hpp>

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::tests {

inline Json run_underflow(const std::vector<std::string>& settings) {
  const Experiment& experiment = find_experiment("underflow");
  Config config(experiment.parameters());
  for (const std::string& setting : settings) config.set(std::string_view(setting));
  Report report("underflow", "test", config);
  Trace trace(1000);
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  return report.to_json();
}

/// Why these settings are refused.
inline std::string run_refusal(const std::vector<std::string>& settings) {
  try {
    run_underflow(settings);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

/// The cell of a table's first row in which the named columns have these values.
inline Json cell(const Json& report, const std::string& table, const std::map<std::string, Json>& where,
                 const std::string& column) {
  const Json& t = report["results"][table];
  const auto index = [&](const std::string& name) {
    for (std::size_t i = 0; i < t["columns"].size(); ++i)
      if (t["columns"][i]["name"] == name) return i;
    throw std::out_of_range(name);
  };
  for (const Json& row : t["rows"]) {
    bool matches = true;
    for (const auto& [name, value] : where) matches = matches && row[index(name)] == value;
    if (matches) return row[index(column)];
  }
  throw std::out_of_range(table + "." + column);
}

}  // namespace halfulp::tests
