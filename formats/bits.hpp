// Integers by their bits, for the host and for device code.
#pragma once

#include <bit>
#include <cstdint>

namespace halfulp {

/// Bits needed to write x: 0 for 0. x has at most 64 bits.
///
/// Code that also runs on a GPU uses this, not std::bit_width. For 64 bits, std::bit_width calls a builtin that only
/// the host has, and nvcc 13.0 makes it 0 on the device without a warning (seen on an H100). tests/house_test.py
/// refuses such calls in device code.
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
