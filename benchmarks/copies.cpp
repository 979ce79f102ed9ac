#include "copies.hpp"

#include <cstdint>
#include <cstring>

namespace halfulp::bench {

void copy_by_memcpy(const std::byte* in, std::byte* out, std::size_t bytes) { std::memcpy(out, in, bytes); }

void copy_by_loop(const std::byte* in, std::byte* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out[i] = in[i];
}

}  // namespace halfulp::bench
