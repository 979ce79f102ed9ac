// Where two reports of one experiment differ.
#pragma once

#include <halfulp/report/config.hpp>

#include <string>

namespace halfulp {

struct ReportDiff {
  bool results_differ = false;  ///< tables, claims' measured values or verdicts
  std::string text;  ///< for people: configuration, then code words, then numbers, then claims; ends in a count
};

/// Compares two valid reports (schema.hpp). Environments and comparisons, which vary between machines, are ignored;
/// differences of the configuration are shown and do not count. Rows of a table are paired by the leading columns that
/// name them, so that a row in between is one row more; by position where nothing tells them apart. Numbers compare
/// exactly. Throws std::invalid_argument if they are reports of different experiments.
ReportDiff diff_reports(const Json& first, const Json& second);

}  // namespace halfulp
