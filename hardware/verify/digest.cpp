#include <halfulp/hardware/verify/digest.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstdio>

namespace halfulp::verify {

static_assert(std::endian::native == std::endian::little, "digests are of little-endian words");

std::uint64_t chunk_digest(std::span<const std::byte> results) { return XXH3_64bits(results.data(), results.size()); }

std::string digest(std::span<const std::uint64_t> chunks) {
  const XXH128_hash_t hash = XXH3_128bits(chunks.data(), chunks.size_bytes());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64), static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace halfulp::verify
