// The tables of a report that people look at: its results, and its claims.
#pragma once

#include <halfulp/experiments/experiment.hpp>

namespace halfulp::cli {

/// The results, and behind them the claims as a table "claims", unless an experiment has one of that name. Throws nlohmann's exceptions for what is
/// no valid report.
Json tables_with_claims(const Json& report);

}  // namespace halfulp::cli
