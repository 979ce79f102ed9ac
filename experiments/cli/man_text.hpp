// Manual pages as man(7) source.
#pragma once

#include <halfulp/experiments/cli/manual.hpp>
#include <halfulp/experiments/report/config.hpp>

#include <span>
#include <string>
#include <vector>

namespace halfulp::cli {

/// The page of section 1 for a command, or for an experiment with its parameters. `see_also` names other pages of section 1.
std::string man_text(const Manual& manual, std::span<const Parameter> parameters, const std::vector<std::string>& see_also);

}  // namespace halfulp::cli
