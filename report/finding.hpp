// Sentences about a report's tables: looking up rows by what they say, and numbers as people write them.
#pragma once

#include <halfulp/support/json.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {

/// A row of a table, its cells by the names of their columns. The table outlives it.
class TableRow {
 public:
  TableRow(const Json& columns, const Json& cells) : columns_(&columns), cells_(&cells) {}
  /// Null for a column that is not there.
  const Json& operator[](std::string_view column) const;
  /// The cell's number, a code word's value; NaN where it has none.
  double number(std::string_view column) const;
  /// The cell's number, rounded to a whole one, in digits.
  std::string whole(std::string_view column) const;
  /// The cell's text; empty where it is none.
  std::string text(std::string_view column) const;

 private:
  const Json* columns_;
  const Json* cells_;
};

/// What cells of a row must be: column and value.
using Conditions = std::initializer_list<std::pair<std::string_view, Json>>;

/// The tables of a report, which outlives this: its "results". Of mutilated results it finds less, and throws nothing.
class ReportTables {
 public:
  explicit ReportTables(const Json& results) : results_(&results) {}
  /// The rows of a table whose cells are these, in its order; none of a table that is not there.
  std::vector<TableRow> rows(std::string_view table, Conditions conditions = {}) const;

 private:
  const Json* results_;
};

/// The row whose `column` is largest; NaN is no candidate. Null if there is none.
const TableRow* largest(const std::vector<TableRow>& rows, std::string_view column);
/// The row whose `column` is smallest.
const TableRow* smallest(const std::vector<TableRow>& rows, std::string_view column);

/// A number with that many significant digits, in full from 1e-4 to 1e6: "0.031", "1.2e-7", "4096".
std::string in_words(double value, int digits = 2);
/// A share of 1 in percent with two significant digits, but never 0 % or 100 % of what is not: "31 %", "99.98 %".
std::string percent(double share);

}  // namespace halfulp
