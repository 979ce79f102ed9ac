// report/schema.json, carried in the program, and what it says about a report.
#pragma once

#include <halfulp/report/experiment.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// The text of report/schema.json.
std::string_view report_schema();

/// What is wrong with a report, one line each ("/claims/0: missing member 'source'"); empty if nothing is. An object
/// that has few of a report's members gets one line with its own: it is some other program's. What satisfies the schema
/// must not contradict itself either (`contradictions`), and be of one of the `known` experiments.
std::vector<std::string> report_errors(const Json& report, std::span<const Experiment> known = kinds_of_report());

/// Reads a valid report from a file, or from standard input where the path is "-". Throws std::invalid_argument in one
/// line that begins with the path: "x.json: no report of halfulp (its members: a, b)", "x.json: not a valid report:
/// /claims/0: ...".
Json read_report(const std::string& path, std::span<const Experiment> known = kinds_of_report());

// What a schema cannot say about a report: whether its parts contradict each other.

/// The contradictions of a report that satisfies the schema, one line each; empty if there are none. Claims: ids are
/// unique, each verdict follows from expected, tolerance and measured. Tables: a row has a cell a column, a code word
/// has the value beside it in a format that its row names, non-finite numbers are spelled as everywhere. Comparisons:
/// counts add up, witnesses differ and their values are their code words'. Status: as claims and comparisons say.
/// Configuration: of one of the `known` experiments and, in a report of this version, every parameter with a value it
/// accepts, and rows of every format asked for.
std::vector<std::string> contradictions(const Json& report, std::span<const Experiment> known);

}  // namespace halfulp
