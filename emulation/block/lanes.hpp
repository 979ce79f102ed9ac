// The vector kernels of block formats: one function each, which picks the best instruction set of this CPU at run time.
//
// `in` begins at a block's boundary; blocks are consecutive runs of `block` elements, the last may be short.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::block {

/// magnitudes[i] = the larger of itself and the largest |x| of block i, as bits: a NaN is larger than infinity.
void magnitudes(const float* in, std::size_t block, std::size_t count, std::uint32_t* magnitudes);

/// low[i], high[i] extended by block i. For elements that are not NaN.
void extremes(const float* in, std::size_t block, std::size_t count, float* low, float* high);

/// out = in times or divided by its block's factor; what is larger than `limit` in magnitude becomes it. `out` may be
/// `in`.
void scaled(const float* in, std::size_t block, std::size_t count, const float* factors, bool divides, float limit,
            float* out);

/// Codes with sign and magnitude become two's complement of so many bits, in place.
void twos_complement(std::uint8_t* codes, std::size_t count, int bits);

}  // namespace halfulp::block
