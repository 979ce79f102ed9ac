// Error messages for unknown names: the nearest spellings first, then everything accepted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A user's word, fit for one line of a terminal: control characters hidden, length bounded.
std::string shown(std::string_view word);

/// `names` ordered by edit distance to `word` (case ignored, prefixes favoured); ties keep their order.
std::vector<std::string> nearest_first(std::string_view word, std::vector<std::string> names);

/// "unknown format 'fp17'; did you mean fp16? accepted: fp16, bf16, ..." in one line.
std::string unknown_name(std::string_view kind, std::string_view word, std::vector<std::string> names);

}  // namespace halfulp
