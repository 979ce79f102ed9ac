// The limit: what it costs this machine to move the bytes of a row and do nothing with them.
#pragma once

#include <cstddef>

namespace halfulp::bench {

void copy_by_memcpy(const std::byte* in, std::byte* out, std::size_t bytes);
/// A plain loop: compiled so that it stays one (CMakeLists.txt).
void copy_by_loop(const std::byte* in, std::byte* out, std::size_t bytes);

}  // namespace halfulp::bench
