#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/block/elements.hpp>
#include <halfulp/emulation/block/lanes.hpp>
#include <halfulp/emulation/block/steps.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace halfulp {
namespace {

using block::Elements, block::Steps;

/// Elements that one thread takes at a time; a tile of tall blocks stays in the second-level cache between its two
/// passes.
constexpr std::size_t tile_size = std::size_t{1} << 16;

void require_size(std::string_view what, std::size_t size, std::size_t rows, std::size_t columns) {
  if (columns == 0 ? size == 0 : size / columns == rows && size % columns == 0) return;
  throw std::invalid_argument(std::string(what) + " has " + std::to_string(size) + " elements, not " +
                              std::to_string(rows) + " x " + std::to_string(columns));
}

template <class T>
void parallel(std::size_t count, std::size_t grain, const T& piece) {
  const auto run = [&](std::size_t begin, std::size_t end) {
    const array::DefaultEnvironment environment;
    piece(begin, end);
  };
  if (count <= grain) return count ? run(0, count) : void();
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, grain), [&](const auto& r) { run(r.begin(), r.end()); });
}

/// Bits of the largest magnitude; `with_nan` says whether a NaN is larger than infinity or nothing.
std::uint32_t largest_bits(std::span<const float> in, bool with_nan) {
  const auto piece = [&](const tbb::blocked_range<std::size_t>& r, std::uint32_t most) {
    block::magnitudes(in.data() + r.begin(), r.size(), r.size(), &most);
    if (with_nan || most <= 0x7f80'0000) return most;
    most = 0;
    for (std::size_t i = r.begin(); i < r.end(); ++i)
      if (!std::isnan(in[i])) most = std::max(most, block::bits_of(in[i]) & 0x7fff'ffff);
    return most;
  };
  const auto larger = [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); };
  if (in.empty()) return 0;
  return tbb::parallel_reduce(
      tbb::blocked_range<std::size_t>(0, in.size(), tile_size), std::uint32_t{0},
      [&](const auto& r, std::uint32_t most) { return larger(most, piece(r, 0)); }, larger);
}

/// Blocks beside each other in one band of rows, or any elements of a row where one step is for all.
struct Tile {
  std::size_t row, rows, column, columns;
  std::size_t block, blocks;  ///< index of the first, and how many; none where one step is for all
  std::size_t width;          ///< of a block
};

/// Finds the steps of all blocks and hands them out tile by tile: use(tile, steps). Returns the step, where one is for
/// all.
template <class Use>
std::optional<BlockStep> each_tile(const BlockFormat& f, const BlockGrid& g, std::span<const float> in,
                                   const BlockOptions& options, float tensor, const Use& use) {
  const bool affine = f.element.is_affine();
  if (options.amax && affine)
    throw std::invalid_argument("a largest magnitude is given, and " + element_name(f.element) +
                                " takes the least and the largest value");
  if (in.empty()) return std::nullopt;
  const bool one_step = !affine && ((options.amax && !f.tensor_scale) || g.count() == 1);
  if (one_step) {
    Steps known;
    const array::DefaultEnvironment environment;
    const std::uint32_t bits = options.amax && !f.tensor_scale ? block::bits_of(*options.amax) & 0x7fff'ffff
                                                               : largest_bits(in, true);
    block::find_steps(f, std::span(&bits, 1), tensor, known);
    parallel(in.size(), tile_size, [&](std::size_t begin, std::size_t end) {
      use(Tile{0, 1, begin, end - begin, 0, 0, end - begin}, known);
    });
    return known[0];
  }
  const std::size_t height = std::min(g.block_rows, g.rows);
  const std::size_t wide = std::max<std::size_t>(1, tile_size / height / g.block_columns),
                    tiles = (g.across + wide - 1) / wide;
  const std::size_t grain = std::max<std::size_t>(
      1, tile_size / std::max<std::size_t>(1, height * std::min(wide * g.block_columns, g.columns)));
  parallel(g.down * tiles, grain, [&](std::size_t begin, std::size_t end) {
    std::vector<std::uint32_t> magnitudes;
    std::vector<float> low, high;
    Steps steps;
    for (std::size_t i = begin; i < end; ++i) {
      Tile t;
      t.row = i / tiles * g.block_rows, t.rows = std::min(g.block_rows, g.rows - t.row);
      t.column = i % tiles * wide * g.block_columns, t.columns = std::min(wide * g.block_columns, g.columns - t.column);
      t.width = g.block_columns;
      t.block = i / tiles * g.across + i % tiles * wide, t.blocks = std::min(wide, g.across - i % tiles * wide);
      magnitudes.assign(t.blocks, 0);
      for (std::size_t row = t.row; row < t.row + t.rows; ++row)
        block::magnitudes(in.data() + row * g.columns + t.column, g.block_columns, t.columns, magnitudes.data());
      if (affine) {
        low.assign(t.blocks, 0), high.assign(t.blocks, 0);
        for (std::size_t row = t.row; row < t.row + t.rows; ++row)
          block::extremes(in.data() + row * g.columns + t.column, g.block_columns, t.columns, low.data(), high.data());
        block::find_affine_steps(f, magnitudes, low, high, steps);
      } else {
        block::find_steps(f, magnitudes, tensor, steps);
      }
      use(t, steps);
    }
  });
  return std::nullopt;
}

/// The scale of the tensor, where the format has one.
float find_tensor_scale(const BlockFormat& f, std::span<const float> in, const BlockOptions& options) {
  if (!f.tensor_scale) return 1;
  const array::DefaultEnvironment environment;
  return tensor_scale(f, options.amax ? std::abs(*options.amax) : std::bit_cast<float>(largest_bits(in, false)));
}

/// Rows of whole blocks one row high are one long row.
BlockGrid flattened(BlockGrid g) {
  if (g.block_rows != 1 || g.rows < 2 || g.columns % g.block_columns != 0) return g;
  return {1, g.rows * g.columns, 1, g.block_columns, 1, g.count()};
}

}  // namespace

float largest_magnitude(std::span<const float> in) { return std::bit_cast<float>(largest_bits(in, true)); }

BlockGrid block_grid(const BlockFormat& f, std::size_t rows, std::size_t columns) {
  if (const std::string why = defect(f); !why.empty()) throw std::invalid_argument("the block format " + why);
  BlockGrid g{rows,
              columns,
              f.rows ? f.rows : std::max<std::size_t>(1, rows),
              f.columns ? f.columns : std::max<std::size_t>(1, columns),
              0,
              0};
  g.down = rows / g.block_rows + (rows % g.block_rows != 0);
  g.across = columns / g.block_columns + (columns % g.block_columns != 0);
  if (rows == 0 || columns == 0) g.down = g.across = 0;
  if (f.whole && (rows % g.block_rows != 0 || columns % g.block_columns != 0))
    throw std::invalid_argument(format_name(f) + " takes whole blocks of " + shape_name(f) + ", and the array is " +
                                std::to_string(rows) + " x " + std::to_string(columns));
  return g;
}

BlockStep BlockArray::step(std::size_t block) const {
  const array::DefaultEnvironment environment;
  BlockStep step = block::with_factor(format, scales[block], tensor_scale);
  if (!zeros.empty()) step.zero = zeros[block];
  return step;
}

BlockArray quantize_blocks(const BlockFormat& f, const Rounding& rounding, std::span<const float> in, std::size_t rows,
                           std::size_t columns, const BlockOptions& options) {
  BlockArray out;
  quantize_blocks(f, rounding, in, rows, columns, out, options);
  return out;
}

void quantize_blocks(const BlockFormat& f, const Rounding& rounding, std::span<const float> in, std::size_t rows,
                     std::size_t columns, BlockArray& out, const BlockOptions& options) {
  const BlockGrid g = flattened(block_grid(f, rows, columns));
  require_size("the array", in.size(), rows, columns);
  out.format = f, out.rows = rows, out.columns = columns;
  out.tensor_scale = find_tensor_scale(f, in, options);
  out.codes.resize(in.size());
  out.scales.resize(g.count());
  out.zeros.resize(f.element.is_affine() ? g.count() : 0);
  const Elements elements(f, rounding, options.random);
  const auto one = each_tile(f, g, in, options, out.tensor_scale, [&](const Tile& t, const Steps& steps) {
    for (std::size_t i = 0; i < t.blocks; ++i) {
      out.scales[t.block + i] = steps.scales[i];
      if (!out.zeros.empty()) out.zeros[t.block + i] = static_cast<std::int16_t>(steps.zeros[i]);
    }
    for (std::size_t row = t.row; row < t.row + t.rows; ++row) {
      const std::size_t at = row * g.columns + t.column;
      elements.encode(in.data() + at, at, t.width, t.columns, steps, out.codes.data() + at);
    }
  });
  if (one) std::fill(out.scales.begin(), out.scales.end(), one->scale);
}

void quantize_block_values(const BlockFormat& f, const Rounding& rounding, std::span<const float> in, std::size_t rows,
                           std::size_t columns, std::span<float> out, const BlockOptions& options) {
  const BlockGrid g = flattened(block_grid(f, rows, columns));
  require_size("the array", in.size(), rows, columns);
  require_size("the result", out.size(), rows, columns);
  if (in.data() != out.data() && in.data() < out.data() + out.size() && out.data() < in.data() + in.size())
    throw std::invalid_argument("the array and the result overlap: they must be the same array or apart");
  const Elements elements(f, rounding, options.random);
  each_tile(f, g, in, options, find_tensor_scale(f, in, options), [&](const Tile& t, const Steps& steps) {
    for (std::size_t row = t.row; row < t.row + t.rows; ++row) {
      const std::size_t at = row * g.columns + t.column;
      elements.round_values(in.data() + at, at, t.width, t.columns, steps, out.data() + at);
    }
  });
}

void dequantize_blocks(const BlockArray& array, std::span<float> out) {
  const BlockFormat& f = array.format;
  const BlockGrid g = block_grid(f, array.rows, array.columns);
  require_size("the result", out.size(), array.rows, array.columns);
  if (array.codes.size() != out.size() || array.scales.size() != g.count() ||
      array.zeros.size() != (f.element.is_affine() ? g.count() : 0))
    throw std::invalid_argument("an array of " + std::to_string(array.rows) + " x " + std::to_string(array.columns) +
                                " elements in " + format_name(f) + " has " + std::to_string(array.codes.size()) +
                                " code words, " + std::to_string(array.scales.size()) + " scales and " +
                                std::to_string(array.zeros.size()) + " zero points");
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code)
    values[code] = static_cast<float>(f.element.value(code & ((1u << f.element.bits()) - 1)));
  const std::size_t height = std::max<std::size_t>(
      1, std::min(g.block_rows, std::max<std::size_t>(1, tile_size / std::max<std::size_t>(1, g.columns))));
  parallel((g.rows + height - 1) / height,
           std::max<std::size_t>(1, tile_size / height / std::max<std::size_t>(1, g.columns)),
           [&](std::size_t begin, std::size_t end) {
             std::vector<float> factors(g.across), zeros(g.across);
             std::size_t known = g.down;  // the band of blocks that they are of
             for (std::size_t row = begin * height; row < std::min(g.rows, end * height); ++row) {
               if (const std::size_t band = row / g.block_rows; band != known) {
                 for (std::size_t i = 0; i < g.across; ++i) {
                   const BlockStep step = array.step(band * g.across + i);
                   factors[i] = step.value, zeros[i] = static_cast<float>(step.zero);
                 }
                 known = band;
               }
               for (std::size_t i = 0, k = row * g.columns; i < g.across; ++i) {
                 const float factor = factors[i], zero = zeros[i];
                 for (const std::size_t last = row * g.columns + std::min(g.columns, (i + 1) * g.block_columns);
                      k < last; ++k)
                   out[k] = (values[array.codes[k]] - zero) * factor;
               }
             }
           });
}

}  // namespace halfulp
