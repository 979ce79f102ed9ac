// An explanation drawn for people.
#pragma once

#include <halfulp/experiments/cli/explanation.hpp>
#include <halfulp/experiments/cli/output.hpp>

namespace halfulp::cli {

/// At most 80 columns wide for formats of up to 16 bits, and for most numbers in wider ones.
std::string render(const Explanation& explanation, const Style& style);

}  // namespace halfulp::cli
