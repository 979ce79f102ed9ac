#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/block/lanes.hpp>
#include <halfulp/emulation/block/steps.hpp>
#include <halfulp/emulation/operation.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace halfulp {
namespace {

using block::Steps;

/// Rounds runs of elements of one array, whose steps are known: to code words or to values.
class Elements {
 public:
  /// Scaled elements wait in the first-level cache for their rounding.
  static constexpr std::size_t buffer_size = 2048;

  Elements(const BlockFormat& f, const Rounding& rounding, RandomStream random)
      : f_(f),
        grid_(element_grid(f.element)),
        rounding_(element_rounding(rounding)),
        random_(random),
        plan_(array::narrow_plan<float>(grid_, rounding_, array::Source::conversion)),
        limit_(static_cast<float>(grid_.value(grid_.max_finite()))),
        one_pass_(plan_ && !f.element.is_affine() && block::has_one_pass(*plan_)) {}

  /// Code words of `count` elements in consecutive blocks of that many; the first begins a block, and has the index
  /// `at`.
  void encode(const float* in, std::size_t at, std::size_t block, std::size_t count, const Steps& steps,
              std::uint8_t* out) const {
    if (one_pass_ && grid_.storage_bits() <= 8 &&
        block::round_in_one_pass(*plan_, scaling(steps), in, block, count, out)) {
      if (f_.element.is_integer()) block::twos_complement(out, count, f_.element.integer_bits);
      return;
    }
    pieces(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) {
      float scaled[buffer_size];
      block::scaled(in + begin, block, size, steps.factors.data() + index, steps.divides, limit_, scaled);
      const RandomStream random = random_.from(at + begin);
      if (grid_.storage_bits() <= 8) {
        round(scaled, random, size, out + begin);
        if (f_.element.is_integer()) block::twos_complement(out + begin, size, f_.element.integer_bits);
        return;
      }
      std::uint16_t wide[buffer_size];
      round(scaled, random, size, wide);
      for (std::size_t i = 0; i < size; i += block)
        block::affine_codes(wide + i, std::min(block, size - i), static_cast<int>(grid_.sign_mask()),
                            steps.zeros.empty() ? 0 : steps.zeros[index + i / block], f_.element.least(),
                            f_.element.most(), f_.element.integer_bits, out + begin + i);
    });
  }

  /// Values instead.
  void round_values(const float* in, std::size_t at, std::size_t block, std::size_t count, const Steps& steps,
                    float* out) const {
    if (one_pass_ && block::round_in_one_pass(*plan_, scaling(steps), in, block, count, out)) return;
    pieces(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) {
      float scaled[buffer_size];
      block::scaled(in + begin, block, size, steps.factors.data() + index, steps.divides, limit_, scaled);
      round_to_grid(scaled, random_.from(at + begin), size);
      if (f_.element.is_integer()) to_integers(scaled, block, size, steps, index);
      block::scaled(scaled, block, size, steps.values.data() + index, false, std::numeric_limits<float>::infinity(),
                    out + begin);
    });
  }

 private:
  /// f(begin, size, index of the first block): pieces that fit the buffer and begin with a block, or lie within one.
  template <class F>
  static void pieces(std::size_t block, std::size_t count, F f) {
    const std::size_t step = block <= buffer_size ? buffer_size / block * block : buffer_size;
    for (std::size_t begin = 0; begin < count;) {
      const std::size_t in_block = block <= buffer_size ? count : block - begin % block;
      const std::size_t size = std::min({step, count - begin, in_block});
      f(begin, size, begin / block);
      begin += size;
    }
  }

  std::uint64_t random_bits(RandomStream random, std::size_t i) const {
    return rounding_.mode == RoundingMode::stochastic ? random.bits(i) : 0;
  }

  template <class Code>
  void round(const float* scaled, RandomStream random, std::size_t size, Code* out) const {
    if (plan_) return array::encode_lanes(*plan_, random, scaled, out, size);
    for (std::size_t i = 0; i < size; ++i)
      out[i] = static_cast<Code>(
          convert(fp32, grid_, rounding_, block::bits_of(scaled[i]), random_bits(random, i)).code);
  }

  void round_to_grid(float* scaled, RandomStream random, std::size_t size) const {
    if (plan_) return array::quantize_lanes(*plan_, random, scaled, scaled, size);
    for (std::size_t i = 0; i < size; ++i)
      scaled[i] = static_cast<float>(
          grid_.value(convert(fp32, grid_, rounding_, block::bits_of(scaled[i]), random_bits(random, i)).code));
  }

  block::Scaling scaling(const Steps& steps) const {
    const bool integers = f_.element.is_integer();
    return {steps.factors.data(),
            steps.values.data(),
            steps.divides,
            limit_,
            integers,
            integers ? integer(f_.element.least()) : 0,
            integers ? integer(f_.element.most()) : 0};
  }
  /// The value of an integer in units of the last place.
  float integer(int units) const {
    return static_cast<float>(units) * static_cast<float>(FloatFormat::power_of_two(-f_.element.fraction_bits));
  }

  /// Integers have no -0, and those of the wide grid saturate by their zero point.
  void to_integers(float* q, std::size_t block, std::size_t size, const Steps& steps, std::size_t first) const {
    const BlockElement& e = f_.element;
    const auto limit = [&](std::size_t begin, std::size_t count, int zero) {
      block::limit(q + begin, count, integer(e.least() - zero), integer(e.most() - zero));
    };
    if (steps.zeros.empty()) return limit(0, size, 0);
    for (std::size_t i = 0; i < size; i += block) limit(i, std::min(block, size - i), steps.zeros[first + i / block]);
  }

  BlockFormat f_;
  FloatFormat grid_;
  Rounding rounding_;
  RandomStream random_;
  std::optional<array::NarrowPlan<std::uint32_t>> plan_;
  float limit_;
  bool one_pass_;
};

/// The number of elements that one thread takes at a time.
constexpr std::size_t tile_size = std::size_t{1} << 16;
/// A tile stays in the first-level cache between its two passes; one of tall blocks, of which each row takes calls of
/// its own, in the second-level cache.
constexpr std::size_t row_size = std::size_t{1} << 12;

void require_size(std::string_view what, std::size_t size, std::size_t rows, std::size_t columns) {
  if (columns == 0 ? size == 0 : size / columns == rows && size % columns == 0) return;
  throw std::invalid_argument(std::string(what) + " has " + std::to_string(size) + " elements, not " +
                              std::to_string(rows) + " x " + std::to_string(columns));
}

void require_rounding(const BlockFormat& f, const Rounding& rounding, const RandomStream& random) {
  const Task task{Operation::convert, fp32, element_grid(f.element), element_rounding(rounding)};
  for (const std::string& why : {refusal(task), refusal(rounding, random)})
    if (!why.empty()) throw std::invalid_argument(why);
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

/// Bits of the largest magnitude. `with_nan`: a NaN is larger than infinity; else it is ignored.
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
  const tbb::blocked_range<std::size_t> all(0, in.size(), tile_size);
  if (in.size() <= tile_size) return in.empty() ? 0 : piece(all, 0);
  return tbb::parallel_reduce(
      all, std::uint32_t{0}, [&](const auto& r, std::uint32_t most) { return larger(most, piece(r, 0)); }, larger);
}

/// Neighbouring blocks in one band of rows, or any elements of a row if one step serves all.
struct Tile {
  std::size_t row, rows, column, columns;
  std::size_t block, blocks;  ///< index of the first, and their number; 0 if one step serves all
  std::size_t width;          ///< of a block
};

/// Takes scales out of steps before values are made of them.
class TakenApart {
 public:
  TakenApart(const BlockFormat& f, std::size_t blocks, ScalesApart* to) : f_(f), to_(to) {
    if (!to) return;
    to->blocks.resize(to->of_blocks ? blocks : 0);
    if (f.scale.storage_bits() <= 8)
      for (std::uint32_t code = 0; code <= f.scale.code_mask(); ++code)
        values_.push_back(block::scale_value(f.scale, code));
  }
  void operator()(const Tile& t, Steps& steps) const {
    for (std::size_t i = 0; to_ && i < steps.values.size(); ++i) {
      steps.values[i] = to_->of_blocks ? 1 : value(steps.scales[i]);
      if (to_->of_blocks && t.blocks) to_->blocks[t.block + i] = value(steps.scales[i]);
    }
  }
  void all(std::uint32_t scale) const {
    if (to_) std::fill(to_->blocks.begin(), to_->blocks.end(), value(scale));
  }

 private:
  float value(std::uint32_t scale) const {
    return values_.empty() ? block::scale_value(f_.scale, scale) : values_[scale];
  }
  const BlockFormat& f_;
  ScalesApart* to_;
  std::vector<float> values_;  ///< of all code words of a short format
};

/// Finds the steps of all blocks and calls use(tile, steps) for every tile. Returns the step if one serves all.
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
    const std::uint32_t bits = options.amax && !f.tensor_scale ? block::bits_of(*options.amax) & 0x7fff'ffff
                                                               : largest_bits(in, true);
    block::find_steps(f, std::span(&bits, 1), tensor, known);
    const BlockStep first = known[0];
    parallel(in.size(), tile_size, [&](std::size_t begin, std::size_t end) {
      Steps own = known;
      use(Tile{0, 1, begin, end - begin, 0, 0, end - begin}, own);
    });
    return first;
  }
  const std::size_t height = std::min(g.block_rows, g.rows);
  const std::size_t wide = std::max<std::size_t>(1, (height == 1 ? row_size : tile_size / height) / g.block_columns),
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

/// The scale of the tensor, if the format has one; else 1.
float find_tensor_scale(const BlockFormat& f, std::span<const float> in, const BlockOptions& options) {
  if (!f.tensor_scale) return 1;
  return tensor_scale(f, options.amax ? std::abs(*options.amax) : std::bit_cast<float>(largest_bits(in, false)));
}

/// Treats rows of whole blocks that are one row high as one long row.
BlockGrid flattened(BlockGrid g) {
  if (g.block_rows != 1 || g.rows < 2 || g.columns % g.block_columns != 0) return g;
  return {1, g.rows * g.columns, 1, g.block_columns, 1, g.count()};
}

}  // namespace

float largest_magnitude(std::span<const float> in) {
  const array::DefaultEnvironment environment;
  return std::bit_cast<float>(largest_bits(in, true));
}

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
  const array::DefaultEnvironment environment;
  const BlockGrid g = flattened(block_grid(f, rows, columns));
  require_size("the array", in.size(), rows, columns);
  require_rounding(f, rounding, options.random);
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
                           std::size_t columns, std::span<float> out, const BlockOptions& options, ScalesApart* apart) {
  const array::DefaultEnvironment environment;
  const BlockGrid g = flattened(block_grid(f, rows, columns));
  require_size("the array", in.size(), rows, columns);
  require_size("the result", out.size(), rows, columns);
  require_rounding(f, rounding, options.random);
  if (in.data() != out.data() && in.data() < out.data() + out.size() && out.data() < in.data() + in.size())
    throw std::invalid_argument("the array and the result overlap: they must be the same array or apart");
  const Elements elements(f, rounding, options.random);
  const float tensor = find_tensor_scale(f, in, options);
  if (apart) apart->tensor = tensor;
  const TakenApart take_apart(f, g.count(), apart);
  const auto one = each_tile(f, g, in, options, tensor, [&](const Tile& t, Steps& steps) {
    take_apart(t, steps);
    for (std::size_t row = t.row; row < t.row + t.rows; ++row) {
      const std::size_t at = row * g.columns + t.column;
      elements.round_values(in.data() + at, at, t.width, t.columns, steps, out.data() + at);
    }
  });
  if (one) take_apart.all(one->scale);
}

void dequantize_blocks(const BlockArray& array, std::span<float> out) {
  const array::DefaultEnvironment environment;
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
