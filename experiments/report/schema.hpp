// experiments/report.schema.json, carried in the program, and what it says about a report.
#pragma once

#include <halfulp/experiments/report/config.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// The text of experiments/report.schema.json.
std::string_view report_schema();

/// What is wrong with a report, one line each ("/claims/0: missing member 'source'"); empty if nothing is. Beyond the
/// schema: rows have one cell a column, claim ids are unique, and status, claims and comparisons agree.
std::vector<std::string> report_errors(const Json& report);

}  // namespace halfulp
