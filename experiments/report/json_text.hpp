// JSON as text, for people and byte-comparable.
#pragma once

#include <halfulp/experiments/report/config.hpp>
#include <halfulp/hardware/json_file.hpp>

#include <string>

namespace halfulp {

/// JSON with two blanks of indentation; what fits on a line takes one line, and so does every row
/// and column of a table.
std::string pretty(const Json& json);

}  // namespace halfulp
