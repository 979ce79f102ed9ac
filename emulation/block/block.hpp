// Block formats over arrays: rows x columns of float32, row by row, to code words with scales and back.
//
// Results equal the scalar definition in scale.hpp, element by element, on any number of threads and with any
// instruction set. Blocks start at the array's first row and column. A block that the array's edge cuts short is a
// shorter block (as if padded with zeros), or refused if the format says `whole`. Stochastic rounding takes
// rounding_bits(seed, stream, first + index) for the element with that index, row by row. The caller's FTZ, DAZ and
// rounding mode have no effect.
//
// A row-major array with more axes is treated as rows and columns: blocks 1 x N run along the last axis.
#pragma once

#include <halfulp/emulation/block/scale.hpp>
#include <halfulp/emulation/random.hpp>

#include <optional>
#include <span>
#include <vector>

namespace halfulp {

/// The positions of an array's blocks.
struct BlockGrid {
  std::size_t rows = 0, columns = 0;                   ///< of the array
  std::size_t block_rows = 1, block_columns = 1;       ///< at least 1
  std::size_t down = 0, across = 0;                    ///< blocks, row by row
  std::size_t count() const { return down * across; }  ///< The number of blocks.
  /// The index of the block that contains an element.
  std::size_t index(std::size_t row, std::size_t column) const {
    return row / block_rows * across + column / block_columns;
  }
};

/// Throws std::invalid_argument for a format with a defect, and if the format wants whole blocks and the array cuts one
/// short.
BlockGrid block_grid(const BlockFormat& format, std::size_t rows, std::size_t columns);

/// An array in a block format. Each element is a code word in the low bits of a byte; scales are code words of their
/// format.
struct BlockArray {
  BlockFormat format;                 ///< of the code words and scales below
  std::size_t rows = 0, columns = 0;  ///< of the array
  std::vector<std::uint8_t> codes;    ///< rows x columns
  std::vector<std::uint32_t> scales;  ///< one per block, row by row of blocks
  std::vector<std::int16_t> zeros;    ///< zero points of affine elements, else empty
  float tensor_scale = 1;             ///< of formats with one: scales are relative to it

  /// The step of the block with that index, for reading values. Its `factor` is not defined.
  BlockStep step(std::size_t block) const;
  bool operator==(const BlockArray&) const = default;
};

/// Options of quantize_blocks.
struct BlockOptions {
  RandomStream random;  ///< of stochastic rounding
  /// A largest magnitude that replaces the array's own: of all blocks, or of the tensor scale if the format has one. It
  /// serves delayed scaling (delayed.hpp) and calibrated scales; larger elements saturate. Not for affine elements.
  std::optional<float> amax;
};

/// The largest magnitude of an array: NaN if it contains one, 0 if it is empty.
float largest_magnitude(std::span<const float> in);

/// Rounds elements by the mode of `rounding` and its bits of stochastic rounding (element_rounding). Throws
/// std::invalid_argument for spans that do not have rows x columns elements, for random bits out of range or more than
/// roundings have that share a word, and for what block_grid refuses.
BlockArray quantize_blocks(const BlockFormat& format, const Rounding& rounding, std::span<const float> in,
                           std::size_t rows, std::size_t columns, const BlockOptions& options = {});

/// The same, reusing the memory of an array.
void quantize_blocks(const BlockFormat& format, const Rounding& rounding, std::span<const float> in, std::size_t rows,
                     std::size_t columns, BlockArray& out, const BlockOptions& options = {});

/// out = the values: block_value of every element.
void dequantize_blocks(const BlockArray& array, std::span<float> out);

/// Scales that values lack.
struct ScalesApart {
  bool of_blocks = false;     ///< whether blocks' scales are wanted too
  std::vector<float> blocks;  ///< one per block, row by row of blocks; not for affine elements
  float tensor = 1;           ///< of the whole array; 1 for formats without one
};

/// Both at once, without code words: out = dequantize_blocks(quantize_blocks(in)). `out` may be `in`. With `apart` it
/// gets the tensor's scale, and if it wants them those of blocks, and the values are without.
void quantize_block_values(const BlockFormat& format, const Rounding& rounding, std::span<const float> in,
                           std::size_t rows, std::size_t columns, std::span<float> out,
                           const BlockOptions& options = {}, ScalesApart* apart = nullptr);

}  // namespace halfulp
