// experiments/report.schema.json, carried in the program, and what it says about a report.
#pragma once

#include <halfulp/experiments/experiment.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// The text of experiments/report.schema.json.
std::string_view report_schema();

/// What is wrong with a report, one line each ("/claims/0: missing member 'source'"); empty if nothing is. What satisfies
/// the schema must not contradict itself either (consistency.hpp), and be of one of the `known` experiments.
std::vector<std::string> report_errors(const Json& report, std::span<const Experiment> known = experiments());

}  // namespace halfulp
