// Philox by Random123, for host and device: what random.hpp gives. A compiler takes two seconds to read Random123's
// headers: of host code, random.cpp alone includes this file.
#pragma once

#include <halfulp/emulation/random.hpp>

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

namespace halfulp::inlined {

/// halfulp::philox().
HALFULP_HOST_DEVICE inline r123::Philox4x32::ctr_type philox(std::uint64_t seed, std::uint64_t stream,
                                                             std::uint64_t index) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  return r123::Philox4x32{}({{low(index), high(index), low(stream), high(stream)}}, {{low(seed), high(seed)}});
}

/// halfulp::rounding_bits().
HALFULP_HOST_DEVICE inline std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return inlined::philox(seed, stream, index / 4)[index % 4];
}

/// RandomStream::bits().
HALFULP_HOST_DEVICE inline std::uint32_t bits_of(const RandomStream& random, std::uint64_t i) {
  const std::uint64_t index = random.first + i;
  const auto n = static_cast<unsigned>(random.roundings_per_word);
  const unsigned width = 32 / n, part = static_cast<unsigned>(index % n);
  return (inlined::rounding_bits(random.seed, random.stream, index / n) >> part * width) &
         (0xffff'ffffu >> (32 - width));
}

}  // namespace halfulp::inlined

#undef HALFULP_HOST_DEVICE
