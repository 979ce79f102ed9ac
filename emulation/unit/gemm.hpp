// Products of matrices by a matrix unit.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/unit/unit.hpp>

namespace halfulp {

/// d = A B + C (without C: + 0), m x n words of unit.accumulator. Every output equals mma() of its row and column, bit
/// for bit, on any number of threads and with any instruction set. NVIDIA's and AMD's rules run on vectors. Throws
/// std::invalid_argument, before it writes anything, for sizes that do not match, words wider than the unit's, types
/// too narrow for them, a D that overlaps operands but is not C itself, k = 0, and a unit that refusal() refuses.
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint16_t> d);
/// The same with results in 32-bit words.
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint32_t> d);
/// The same with results in 64-bit words.
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint64_t> d);

/// Whether mma_gemm runs a unit on vectors.
bool has_vector_body(const MatrixUnit& unit);

}  // namespace halfulp
