// What a schema cannot say about a report: whether its parts contradict each other.
#pragma once

#include <halfulp/experiments/experiment.hpp>

#include <span>
#include <string>
#include <vector>

namespace halfulp {

/// The contradictions of a report that satisfies the schema, one line each; empty if there are none. Claims: ids are
/// unique, each verdict follows from expected, tolerance and measured. Tables: a row has a cell a column, a code word has the
/// value beside it in a format that its row names, non-finite numbers are spelled as everywhere. Comparisons: counts add up,
/// witnesses differ and their values are their code words'. Status: as claims and comparisons say. Configuration: of one of
/// the `known` experiments and, in a report of this version, every parameter with a value it accepts, and rows of every format
/// asked for.
std::vector<std::string> contradictions(const Json& report, std::span<const Experiment> known);

}  // namespace halfulp
