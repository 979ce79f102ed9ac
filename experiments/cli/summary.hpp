// What a run says on the terminal.
#pragma once

#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/report/report.hpp>

#include <string>
#include <vector>

namespace halfulp::cli {

/// One experiment that ran.
struct Finished {
  std::string experiment;
  Report report;
  double seconds;
  std::string file;
};

/// One experiment: its claims, one line each, what was compared, where the report is.
std::string summary(const Finished& run, const Style& style);

/// Several experiments: a table, one line each; below it what failed, with expected and measured, and what was skipped.
std::string summary_table(const std::vector<Finished>& runs, const Style& style);

}  // namespace halfulp::cli
