// Dot products and matrix products of arrays in block formats, every rounding stated.
#pragma once

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/unit/unit.hpp>

namespace halfulp {

/// How scales meet the sum p of a segment.
enum class ScaleOrder : std::uint8_t {
  after,    ///< (p sa) sb, two roundings: DeepSeek-V3's fp8_gemm_kernel
  product,  ///< p (sa sb), two roundings
};

/// A dot product along k. The operands' blocks cut k into segments in which neither scale changes. Of each segment the
/// elements alone are summed (inside): exactly and rounded once, by a DotModel, or by a matrix unit. The sum is
/// converted into the outer format, multiplied with the scales and added to those before, sequentially, each operation
/// rounded there; the first is no addition. Scales are converted into the outer format first. Tensor scales come last:
/// (sum ta) tb. "Promoted every 128" (DeepSeek-V3, section 3.3.2) is blocks of 128, a unit or a narrow accumulator
/// inside, fp32 outside.
struct BlockDot {
  Stage outer{FloatFormat{8, 23, 127, NonFinite::ieee}, {}};  ///< the sum of the blocks' sums: its format and rounding
  ScaleOrder order = ScaleOrder::after;                       ///< when the scales come in
  std::optional<DotModel>
      inside;  ///< of float elements; its `input` is replaced by their format, the same for both operands
  const MatrixUnit* unit = nullptr;  ///< one without scales of its own, for these formats; c = 0
  std::uint64_t seed = 0;            ///< of stochastic roundings outside
};

/// Why two formats cannot be multiplied so, in one line; empty if they can. Integers and affine elements are summed
/// exactly.
std::string refusal(const BlockDot& dot, const BlockFormat& a, const BlockFormat& b);

/// Row `row_a` of a times row `row_b` of b, both along their columns, as a code word of the outer format; +0 for no
/// columns. `stream` tells apart random bits. Throws std::invalid_argument for what refusal() names, other lengths,
/// rows that are not there.
std::uint64_t block_dot(const BlockDot& dot, const BlockArray& a, std::size_t row_a, const BlockArray& b,
                        std::size_t row_b, std::uint64_t stream = 0);

/// c = a b^T: c[i * b.rows + j] is block_dot of row i of a and row j of b, with the stream i * b.rows + j.
void block_gemm(const BlockDot& dot, const BlockArray& a, const BlockArray& b, std::span<std::uint64_t> c);

}  // namespace halfulp
