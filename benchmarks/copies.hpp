// The limit: the time this machine needs to move a row's bytes without computing.
#pragma once

#include <cstddef>

namespace halfulp::bench {

void copy_by_memcpy(const std::byte* in, std::byte* out, std::size_t bytes);
/// A plain loop, compiled so that it stays a loop (CMakeLists.txt).
void copy_by_loop(const std::byte* in, std::byte* out, std::size_t bytes);

}  // namespace halfulp::bench
