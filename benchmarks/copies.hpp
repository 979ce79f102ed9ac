// The limit: the time that this machine needs to copy the bytes of a row.
#pragma once

#include <cstddef>

namespace halfulp::bench {

void copy_by_memcpy(const std::byte* in, std::byte* out, std::size_t bytes);
/// A plain loop, compiled so that it does not become memcpy (CMakeLists.txt).
void copy_by_loop(const std::byte* in, std::byte* out, std::size_t bytes);

}  // namespace halfulp::bench
