// The vector kernels of block formats. Each function picks the best instruction set of this CPU at run time.
//
// `in` begins at a block's boundary. Blocks are consecutive runs of `block` elements; the last may be short.
#pragma once

#include <halfulp/emulation/array/plan.hpp>

#include <cstddef>
#include <cstdint>

namespace halfulp::block {

/// magnitudes[i] = the larger of itself and the largest |x| of block i, as bits: a NaN is larger than infinity.
void magnitudes(const float* in, std::size_t block, std::size_t count, std::uint32_t* magnitudes);

/// Extends low[i] and high[i] by the elements of block i, which are not NaN.
void extremes(const float* in, std::size_t block, std::size_t count, float* low, float* high);

/// out = in times its block's factor, or divided by it, limited to `limit` in magnitude. `out` may be `in`.
void scaled(const float* in, std::size_t block, std::size_t count, const float* factors, bool divides, float limit,
            float* out);

/// x = x + 0, which has no -0, limited to [low, high]; a NaN stays. Precondition: rounding to nearest.
void limit(float* x, std::size_t count, float low, float high);

/// What becomes of elements besides their rounding.
struct Scaling {
  const float *factors, *values;  ///< of each block; as in BlockStep
  bool divides;
  float limit;    ///< of magnitudes before they are rounded
  bool integers;  ///< values are limited to [least, most] afterwards, and have no -0
  float least, most;
};

/// Whether round_in_one_pass takes such a plan: to nearest even, formats with -0.
bool has_one_pass(const array::NarrowPlan<std::uint32_t>& plan);
/// Scales elements, rounds them and scales them back; or only scales and rounds them, to code words of up to 8 bits,
/// where `integers` has no effect. `out` may be `in`. Does nothing and returns false where a vector would lie in two
/// blocks.
bool round_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& scaling, const float* in,
                       std::size_t block, std::size_t count, float* out);
bool round_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& scaling, const float* in,
                       std::size_t block, std::size_t count, std::uint8_t* out);

/// Converts codes of sign and magnitude to two's complement of `bits` bits, in place.
void twos_complement(std::uint8_t* codes, std::size_t count, int bits);

/// Converts codes of sign and magnitude, whose sign is the bit `sign`, to integers plus `zero` limited to [least,
/// most], of `bits` bits. Precondition: 16 bits hold the sums.
void affine_codes(const std::uint16_t* in, std::size_t count, int sign, int zero, int least, int most, int bits,
                  std::uint8_t* out);

/// sums[r * n + j] = the sum over k < count of a[r * a_step + k] * b[k * n + j], for r < rows and j < n, where doubles
/// hold every partial sum in any order.
void sums_of_products(const double* a, std::size_t rows, std::size_t a_step, std::size_t count, const double* b,
                      std::size_t n, double* sums);

}  // namespace halfulp::block
