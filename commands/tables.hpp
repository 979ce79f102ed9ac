// Tables of a report as text, for people.
#pragma once

#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/experiment.hpp>

#include <string>
#include <utility>
#include <vector>

namespace halfulp::cli {

/// Rows of a headline that fit a screen beside everything else.
inline constexpr std::size_t headline_rows = 12;

/// A table of a report ("title", "columns", "rows"): title, all columns and rows, a legend. Cells that are verdicts
/// have their colour.
std::string table_text(const Json& table, const Style& style = {});

/// A part of a table.
struct TablePart {
  std::vector<std::string> columns;  ///< by name, in this order; empty: all
  std::vector<std::pair<std::string, std::string>>
      where;  ///< rows whose cell in a column reads so, as a table or CSV shows it; empty: all
};

/// The table of these columns and rows. Throws std::invalid_argument for a column that is not there or there twice, and
/// for a value that no row has.
Json part_of(const Json& table, const TablePart& part);

/// Its rows as RFC 4180's comma-separated values, behind a line of names: numbers in full, emulated ones by their
/// value, null as nothing.
std::string table_csv(const Json& table);

/// What a headline shows of its table: title and at most `rows` rows; the rest is counted, behind `more`, which says
/// where it is. Throws std::logic_error if the table has no such column.
std::string headline_text(const Json& table, const Headline& headline, std::size_t rows, const std::string& more,
                          const Style& style = {});

// The tables of a report that people look at: its results, and its claims.

/// The results, and behind them the claims as a table "claims", unless an experiment has one of that name. Throws
/// nlohmann's exceptions for what is no valid report.
Json tables_with_claims(const Json& report);

// What a run says on the terminal.

/// One experiment that ran.
struct Finished {
  const Experiment* experiment;
  Report report;
  double seconds;
  std::string file;
};

/// One experiment: its question, its finding, its headline, the claims that did not hold (`verbose`: all claims, every
/// row of the headline), what was compared, and where the report is. At most 80 columns if names and paths are short.
std::string summary(const Finished& run, bool verbose, const Style& style);

/// Several experiments: the question and the finding of each, the claims that failed, and how many held, two
/// experiments a line (`verbose`: their headlines and all claims too).
std::string summary_table(const std::vector<Finished>& runs, bool verbose, const Style& style);

}  // namespace halfulp::cli
