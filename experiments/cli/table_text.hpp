// Tables of a report as text, for people.
#pragma once

#include <halfulp/experiments/experiment.hpp>

#include <string>

namespace halfulp::cli {

/// Rows of a headline that fit a screen beside everything else.
inline constexpr std::size_t headline_rows = 12;

/// A table of a report ("title", "columns", "rows"): title, all columns and rows, a legend.
std::string table_text(const Json& table);

/// What a headline shows of its table: title and at most `rows` rows; the rest is counted, behind `more`, which says where
/// it is. Throws std::logic_error if the table has no such column.
std::string headline_text(const Json& table, const Headline& headline, std::size_t rows, const std::string& more);

}  // namespace halfulp::cli
