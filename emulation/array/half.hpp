// Arithmetic by the CPU's fp16 instructions (AVX512-FP16): twice as many lanes as of fp32.
#pragma once

#include <halfulp/emulation/array/kernels.hpp>

#include <cstdint>
#include <optional>

namespace halfulp::array {

/// Whether halves serve: the CPU has the instructions, the chosen instruction set is AVX-512, and the process's first
/// use found a few thousand of their results equal to the scalar definition's.
bool has_half_lanes();

/// A format of up to 8 bits in lanes of halves. Its code words, moved up, are those of fp16 numbers 2^(bias - 15) times
/// as large, subnormals included.
struct HalfPlan {
  RoundingMode mode;
  Sums sums;           ///< how a result is rounded to fp16 before it is rounded to the format
  int unused;          ///< upper bits of a byte
  int missing;         ///< exponent bits that fp16 has more
  int tail;            ///< fraction bits that fp16 has more
  std::uint16_t most;  ///< bits of the largest fp16 number that is rounded to a finite one, truncated
  std::uint8_t max;    ///< the magnitude of the largest finite code word
  float unscale;       ///< 2^(15 - bias)
};

/// The plan of an operation that halves do: add, sub, mul and fma of a format whose finite values are finite halves,
/// without flushing or stochastic rounding, with zeros of both signs.
std::optional<HalfPlan> half_plan(Operation op, const FloatFormat& f, const Rounding& rounding);

/// The operation on code words, any number of them. Runs with operands that are not finite or results beyond the
/// largest are left to `rest`, as are the last elements. Precondition: has_half_lanes().
void combine_byte_halves(Operation op, const HalfPlan& plan, const std::uint8_t* a, const std::uint8_t* b,
                         const std::uint8_t* c, std::uint8_t* out, std::size_t count, const Rest& rest);

}  // namespace halfulp::array
