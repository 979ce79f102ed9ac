// What a run says on the terminal.
#pragma once

#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/experiment.hpp>

#include <string>
#include <vector>

namespace halfulp::cli {

/// One experiment that ran.
struct Finished {
  const Experiment* experiment;
  Report report;
  double seconds;
  std::string file;
};

/// One experiment: its headline, the claims that did not hold (`verbose`: all claims, every row of the headline), what was
/// compared, where the report is. At most 80 columns where names and paths are short.
std::string summary(const Finished& run, bool verbose, const Style& style);

/// Several experiments: their headlines, the claims that did not hold, and a table, one line each.
std::string summary_table(const std::vector<Finished>& runs, bool verbose, const Style& style);

}  // namespace halfulp::cli
