// Digests of results, which the program and the WebAssembly module must have in common: every operation on every code
// word of the small formats, samples of the others, each matrix unit, text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace halfulp::web {

/// How many there are.
std::size_t digest_count();
/// What one is of, such as "add e4m3 nearest-even, all pairs".
std::string digest_name(std::size_t index);
/// It, computed now: from milliseconds to a second. Precondition: index < digest_count().
std::uint64_t digest_of(std::size_t index);

}  // namespace halfulp::web
