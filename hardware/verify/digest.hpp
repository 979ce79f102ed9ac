// The digest of results by which two machines compare: code words, little-endian, as wide as the format's storage, NaN
// canonical; XXH3-64 of each run of 2^24 results in input order (a chunk), XXH3-128 of the chunk digests as
// little-endian words.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace halfulp::verify {

inline constexpr std::uint64_t chunk_size = std::uint64_t{1} << 24;

std::uint64_t chunk_digest(std::span<const std::byte> results);
/// 32 hexadecimal digits.
std::string digest(std::span<const std::uint64_t> chunks);

}  // namespace halfulp::verify
