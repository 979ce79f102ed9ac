// Error messages for unknown names: the nearest spelling, and everything accepted in the order of its declaration.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A user's word, fit for one line of a terminal: control characters hidden, length bounded.
std::string shown(std::string_view word);

/// Those of `names` that are nearest to `word` by edit distance (case ignored, prefixes favoured), nearest first, `most` of them.
std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> names, std::size_t most);

/// "unknown format 'fp17'; did you mean fp16? accepted: fp16, bf16, ..." in one line. The name meant is the nearest by edit
/// distance (case ignored, prefixes favoured; the first of several), if it is near at all; `names` keep their order. Of more
/// than `most` names the nearest come, nearest first, and the others are counted: "accepted: fp16, bf16, and 229 more".
std::string unknown_name(std::string_view kind, std::string_view word, std::vector<std::string> names, std::size_t most = 100);

}  // namespace halfulp
