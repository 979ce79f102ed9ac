// Claims as a table, beside those of the results.
#pragma once

#include <halfulp/experiments/experiment.hpp>

#include <cstddef>
#include <string>

namespace halfulp::cli {

/// The claims of a valid report as a table ("title", "columns", "rows"), for where no table of the results has the name claims. At most that many
/// characters of what is neither a number nor an id.
Json claims_table(const Json& report, std::size_t most = std::string::npos);

}  // namespace halfulp::cli
