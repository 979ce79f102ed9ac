// Random bits as a function of (seed, stream, index): the same in any order, on any number of threads.
#pragma once

#include <array>
#include <cstdint>

namespace halfulp {

/// 128 random bits of Philox4x32-10 (Salmon et al. 2011) for key = seed, counter = (index, stream).
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// 64 random bits: the first two words of `philox`.
std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// The 32 random bits of the stochastic rounding with this index: word index mod 4 of block index / 4, so that arrays
/// use every word of a block.
std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Where the random bits of an array's stochastic roundings come from: element i takes rounding_bits(seed, stream,
/// first + i), or a part of a word that several roundings share: they need fewer words, which take most of the time.
struct RandomStream {
  std::uint64_t seed = 0, stream = 0;  ///< which sequence of random words
  std::uint64_t first = 0;             ///< index of the first element; indices wrap at 2^64
  int roundings_per_word = 1;          ///< 1, 2 or 4, for up to 32, 16 or 8 random bits each

  /// The stream that begins i roundings later.
  constexpr RandomStream from(std::uint64_t i) const { return {seed, stream, first + i, roundings_per_word}; }
  /// What element i takes: with n = roundings_per_word and k = first + i, part k mod n of word k / n, from the lowest
  /// bits up.
  std::uint32_t bits(std::uint64_t i) const;
};

}  // namespace halfulp
