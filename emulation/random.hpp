// Random bits as a function of (seed, stream, index): the same in any order, on any number of threads.
#pragma once

#include <cstdint>

// Random123 stops with an error on CPUs that its authors have not tried. Philox needs only 32-bit integers, and the
// test web_module compares what it gives there.
#if defined(__wasm__)
#define __riscv
#include <Random123/philox.h>
#undef __riscv
#else
#include <Random123/philox.h>
#endif

// Random123 is not constexpr: nvcc must be told that device code calls these too.
#ifdef __CUDACC__
#define HALFULP_HOST_DEVICE __host__ __device__
#else
#define HALFULP_HOST_DEVICE
#endif

namespace halfulp {

/// 128 random bits of Philox4x32-10 (Salmon et al. 2011) for key = seed, counter = (index, stream).
HALFULP_HOST_DEVICE inline r123::Philox4x32::ctr_type philox(std::uint64_t seed, std::uint64_t stream,
                                                             std::uint64_t index) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  return r123::Philox4x32{}({{low(index), high(index), low(stream), high(stream)}}, {{low(seed), high(seed)}});
}

/// 64 random bits: the first two words of `philox`.
inline std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = philox(seed, stream, index);
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

/// The 32 random bits of the stochastic rounding with this index: word index mod 4 of block index / 4, so that arrays
/// use every word of a block.
HALFULP_HOST_DEVICE inline std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox(seed, stream, index / 4)[index % 4];
}

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
  HALFULP_HOST_DEVICE std::uint32_t bits(std::uint64_t i) const {
    const std::uint64_t index = first + i;
    const auto n = static_cast<unsigned>(roundings_per_word);
    const unsigned width = 32 / n, part = static_cast<unsigned>(index % n);
    return (rounding_bits(seed, stream, index / n) >> part * width) & (0xffff'ffffu >> (32 - width));
  }
};

}  // namespace halfulp

#undef HALFULP_HOST_DEVICE
