// Reports of experiments that train, of tiny trainings.
#pragma once

#include <halfulp/data/images.hpp>
#include <halfulp/report/runner.hpp>

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace training_report {

using namespace halfulp;

inline Json report_of(const char* name, const std::vector<std::string>& settings) {
  const Experiment& experiment = find_experiment(name);
  Config config(experiment.parameters());
  for (const std::string& setting : settings) config.set(setting);
  Trace trace;
  Report report(name, "test", config);
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  return report.to_json();
}

inline std::string refused(const char* name, const std::vector<std::string>& settings) {
  try {
    report_of(name, settings);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

/// The cell of a table in the first row that has `value` in `column`.
inline Json cell(const Json& report, const char* table, const char* column, const Json& value, const char* wanted) {
  const Json& t = report.at("results").at(table);
  const auto place = [&](const std::string& of) {
    for (std::size_t i = 0; i < t["columns"].size(); ++i)
      if (t["columns"][i]["name"] == of) return i;
    throw std::logic_error("no column " + of);
  };
  for (const Json& row : t["rows"])
    if (row[place(column)] == value) return row[place(wanted)];
  throw std::logic_error("no row " + value.dump());
}

/// No claim fails, and their ids are what the schema wants; and what a claim came to.
inline void expect_no_failure(const Json& report) {
  for (const Json& claim : report["claims"]) {
    EXPECT_NE(claim["verdict"], "fail") << claim;
    EXPECT_TRUE(std::regex_match(claim["id"].get<std::string>(), std::regex("[a-z0-9]+(-[a-z0-9]+)*"))) << claim;
  }
}
inline Json verdict(const Json& report, const std::string& id) {
  for (const Json& claim : report["claims"])
    if (claim["id"] == id) return claim["verdict"];
  return "absent";
}

/// Why there is no Fashion-MNIST here; empty if there is.
inline std::string no_images() {
  auto loaded = load_images();
  const auto* const missing = std::get_if<NotInstalled>(&loaded);
  return missing ? missing->reason : "";
}

}  // namespace training_report
