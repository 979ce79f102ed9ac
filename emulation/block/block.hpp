// Block formats over arrays: rows x columns of float32, row by row, to code words with scales and back.
//
// Results are those of the scalar definition in scale.hpp, element by element, on any number of threads and with any
// instruction set. Blocks start at the array's first row and column; those cut short at its edges are shorter blocks
// (as if padded with zeros), or refused where the format says `whole`. Stochastic rounding takes rounding_bits(seed,
// stream, first + index) for the element with that index, row by row. FTZ, DAZ and rounding modes of the caller are put
// aside.
//
// A row-major array of more axes is one of rows and columns: blocks 1 x N run along the last axis.
#pragma once

#include <halfulp/emulation/block/scale.hpp>
#include <halfulp/emulation/random.hpp>

#include <optional>
#include <span>
#include <vector>

namespace halfulp {

/// Where the blocks of an array are.
struct BlockGrid {
  std::size_t rows = 0, columns = 0;                   ///< of the array
  std::size_t block_rows = 1, block_columns = 1;       ///< at least 1
  std::size_t down = 0, across = 0;                    ///< blocks, row by row
  std::size_t count() const { return down * across; }  ///< How many blocks there are.
  /// The index of the block that has this element.
  std::size_t index(std::size_t row, std::size_t column) const {
    return row / block_rows * across + column / block_columns;
  }
};

/// Throws std::invalid_argument for a format with a defect, and where a whole block is asked for and the array cuts one
/// short.
BlockGrid block_grid(const BlockFormat& format, std::size_t rows, std::size_t columns);

/// An array in a block format: code words in the low bits of a byte each, scales as code words of their format.
struct BlockArray {
  BlockFormat format;                 ///< what the code words and scales below are of
  std::size_t rows = 0, columns = 0;  ///< of the array
  std::vector<std::uint8_t> codes;    ///< rows x columns
  std::vector<std::uint32_t> scales;  ///< one a block, row by row of blocks
  std::vector<std::int16_t> zeros;    ///< zero points of affine elements, else empty
  float tensor_scale = 1;             ///< of formats with one: what scales are relative to

  /// How the block with that index gives values back. Its factor is not meant.
  BlockStep step(std::size_t block) const;
  bool operator==(const BlockArray&) const = default;
};

/// What quantize_blocks may take besides format and array.
struct BlockOptions {
  RandomStream random;  ///< of stochastic rounding
  /// The largest magnitude to go by instead of the array's own: that of all blocks, or of the tensor scale where the
  /// format has one. For delayed scaling (delayed.hpp) and calibrated ones; larger elements saturate. Not for affine
  /// elements.
  std::optional<float> amax;
};

/// The largest magnitude of an array: NaN if it holds one, 0 if it is empty.
float largest_magnitude(std::span<const float> in);

/// `rounding` says how elements are rounded: its mode and the bits of stochastic rounding count (element_rounding).
/// Throws std::invalid_argument for spans that are not of rows x columns elements, and what block_grid refuses.
BlockArray quantize_blocks(const BlockFormat& format, const Rounding& rounding, std::span<const float> in,
                           std::size_t rows, std::size_t columns, const BlockOptions& options = {});

/// The same into an array whose memory is used again.
void quantize_blocks(const BlockFormat& format, const Rounding& rounding, std::span<const float> in, std::size_t rows,
                     std::size_t columns, BlockArray& out, const BlockOptions& options = {});

/// out = the values: block_value of every element.
void dequantize_blocks(const BlockArray& array, std::span<float> out);

/// Both at once, without code words: out = dequantize_blocks(quantize_blocks(in)). `out` may be `in`.
void quantize_block_values(const BlockFormat& format, const Rounding& rounding, std::span<const float> in,
                           std::size_t rows, std::size_t columns, std::span<float> out,
                           const BlockOptions& options = {});

}  // namespace halfulp
