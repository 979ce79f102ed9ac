// Published results by where they were published, and the claims of experiments that measure them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace halfulp::reproduction {

/// Claims of an experiment: an id, or what ids begin and end with around a '*'; "*" alone: all those with a published
/// source.
struct Evidence {
  std::string_view experiment, claim;
};

/// One publication's results in one set-up.
struct Line {
  std::string_view name;    ///< short, of tables
  std::string_view source;  ///< citation
  std::string_view set_up;  ///< what was computed, and what is said to come out
  std::vector<Evidence> evidence;
};

/// In the order of a lecture. A claim belongs to the first line that names it.
std::span<const Line> lines();

/// Whether somebody has published it: its source is neither a derivation nor a measurement of this project's.
bool is_published(std::string_view source);

bool names(const Evidence& evidence, std::string_view experiment, std::string_view claim, std::string_view source);

/// The line that a claim belongs to, or null.
const Line* line_of(std::string_view experiment, std::string_view claim, std::string_view source);

}  // namespace halfulp::reproduction
