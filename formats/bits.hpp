// Integers by their bits, for the host and for device code.
#pragma once

#include <bit>
#include <cstdint>

namespace halfulp {

/// Bits needed to write x: 0 for 0. x has at most 64 bits.
///
/// Code that a GPU runs too counts bits with this alone: nvcc 13.0 turns std::bit_width of 64 bits, whose builtin only
/// the host has, into 0 without a word (seen on an H100; tests/house_test.py keeps such calls out).
template <class U>
constexpr int bit_length(U x) {
  static_assert(sizeof(U) <= 8);
#ifdef __CUDA_ARCH__
  return 64 - __clzll(static_cast<long long>(x));
#else
  return static_cast<int>(std::bit_width(x));
#endif
}

}  // namespace halfulp
