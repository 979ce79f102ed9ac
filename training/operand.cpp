#include <halfulp/training/operand.hpp>

#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/array/transpose.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/product/kernels.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/counting.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp::training {

bool folds(const Storage& s) {
  const BlockFormat* const b = s.block();
  return b && !b->element.is_integer() && b->scale.precision() + b->element.format.precision() <= 12;
}

FloatFormat element_format(const Storage& s) {
  if (const FloatFormat* const f = s.plain()) return *f;
  return folds(s) || s.block()->element.is_integer() ? fp32 : s.block()->element.format;
}

ProductModel operand_model(const std::string& accumulate, const Storage& a, const Storage& b,
                           const std::string& where) {
  const FloatFormat in_a = element_format(a), in_b = element_format(b);
  const std::string operands = "in=" + format_name(in_a) + (in_b == in_a ? "" : ",b=" + format_name(in_b));
  const auto with_results_in_floats = [](const ProductModel& model) {
    const FloatFormat& result = format_of_result(model);
    if (!holds(fp32, result))
      throw std::invalid_argument("sums in " + format_name(result) +
                                  " are no floats; accepted: results within fp32, such as out=fp32");
    return model;
  };
  try {
    if (accumulate.find('.') == std::string::npos)
      return with_results_in_floats(parse_product_model(operands + "," + accumulate));
    const ProductModel model = with_results_in_floats(parse_product_model(accumulate));
    if (!(format_of_a(model) == in_a) || !(format_of_b(model) == in_b))
      throw std::invalid_argument(accumulate + " takes " + format_name(format_of_a(model)) + " and " +
                                  format_name(format_of_b(model)) + ", operands are " + format_name(in_a) + " and " +
                                  format_name(in_b));
    if (const MatrixUnit* const unit = std::get_if<MatrixUnit>(&model); unit && unit->scale_block)
      throw std::invalid_argument(accumulate + " takes scales of its own; accepted: units without");
    return model;
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(where + ": " + error.what()); }
}

namespace {

void transpose(std::span<const float> from, std::size_t rows, std::size_t columns, std::span<float> to) {
  constexpr std::size_t side = 16;  // lines of a power of two apart are in each other's way in the cache
  for_rows((columns + side - 1) / side, side * rows, [&](std::size_t begin, std::size_t end) {
    float tile[side][side] = {};
    for (std::size_t j0 = begin * side; j0 < std::min(end * side, columns); j0 += side)
      for (std::size_t i0 = 0; i0 < rows; i0 += side) {
        const std::size_t height = std::min(side, rows - i0), width = std::min(side, columns - j0);
        const float* const corner = from.data() + i0 * columns + j0;
        if (height == side && width == side) {
          for (std::size_t i = 0; i < side; i += 4)
            for (std::size_t j = 0; j < side; j += 4) {
              const float* const at = corner + i * columns + j;
              const float* const four[] = {at, at + columns, at + 2 * columns, at + 3 * columns};
              array::transpose4(four, &tile[j][i], side);
            }
        } else {
          for (std::size_t i = 0; i < height; ++i)
            for (std::size_t j = 0; j < width; ++j) tile[j][i] = corner[i * columns + j];
        }
        for (std::size_t j = 0; j < width; ++j) std::copy_n(tile[j], height, to.begin() + (j0 + j) * rows + i0);
      }
  });
}

/// Whether rounding leaves an array as it is, seen from its bits.
bool is_rounded(const FloatFormat& f, const Rounding& rounding, std::span<const float> values) {
  if (!array::short_float(f) || rounding.flush_inputs || rounding.flush_outputs) return false;
  const auto piece = [&](std::size_t begin, std::size_t end) {
    const products::MagnitudeRange range = products::extent_of(values.data() + begin, end - begin);
    return range.finite && range.zeros >= fp32.fraction_bits - f.fraction_bits;
  };
  if (!piece(0, std::min<std::size_t>(values.size(), 256))) return false;
  std::atomic<bool> all{true};
  for_rows(values.size(), 1, [&](std::size_t begin, std::size_t end) {
    if (all && !piece(begin, end)) all = false;
  });
  return all;
}

/// Adds to a tally what rounding a matrix into blocks did. An element has overflowed if it exceeds the largest value
/// that its scale allows by more than half of the last place, whatever it was rounded to.
void count(std::span<const float> before, const BlockElement& element, const PolicyOperand& x, Tally& tally) {
  double largest = 0;  // integers are not examined
  if (!element.is_integer())
    largest = element.target() +
              (element.target() - element.value(static_cast<unsigned>(element.format.max_finite()) - 1)) / 2;
  tally.elements += before.size();
  const BlockGrid& grid = x.grid;
  count_rows(grid.rows, grid.columns, tally, [&](std::size_t begin, std::size_t end, Tally& own) {
    std::vector<float> most(grid.across);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t row = i * grid.columns;
      bool numbers = true;
      for (std::size_t b = 0; b < grid.across; ++b) {
        const float scale = x.scales[i / grid.block_rows * grid.across + b] * x.outer;
        const double limit = largest * static_cast<double>(scale);
        // Beyond this float is what is beyond the limit in double.
        most[b] = limit > 0 ? static_cast<float>(limit) : std::numeric_limits<float>::infinity();
        if (static_cast<double>(most[b]) > limit && limit > 0) most[b] = std::nextafter(most[b], 0.0f);
        numbers &= scale == scale;
      }
      const RoundedElements lost = count_rounded(
          before.subspan(row, grid.columns), x.elements.subspan(row, grid.columns), grid.block_columns, most.data());
      own.nan += lost.nan, own.to_zero += lost.to_zero, own.overflow += lost.beyond;
      if (numbers) continue;
      for (std::size_t j = 0; j < grid.columns; ++j)  // where the scale is NaN, so is everything
        own.nan += std::isnan(x.scales[grid.index(i, j)] * x.outer) && !std::isnan(x.elements[row + j]);
    }
  });
}

}  // namespace

void PolicyOperand::take(const Storage& storage, std::span<const float> memory, std::size_t rows, std::size_t k,
                         bool in_columns, RandomStream random, std::optional<float> amax, Tally* tally) {
  scales.clear();
  outer = 1;
  transposed = in_columns;
  elements = memory;
  if (storage.keeps_floats()) return;
  if (!tally && storage.plain() && is_rounded(*storage.plain(), storage.rounding, memory)) return;
  if (buffer.size() < memory.size()) buffer.resize(memory.size());
  const std::span<float> own = std::span(buffer).first(memory.size());
  elements = own;
  if (const FloatFormat* const f = storage.plain()) {
    quantize(*f, storage.rounding, memory, own, random, tally);
    return;
  }
  const BlockFormat& format = *storage.block();
  std::span<const float> by_rows = memory;
  if (in_columns) {
    if (tally) turned.resize(memory.size());  // to be counted, it has to stay
    const std::span<float> to = tally ? std::span(turned) : own;
    transpose(memory, k, rows, to);
    by_rows = to;
    transposed = false;
  }
  grid = block_grid(format, rows, k);
  if (format.element.is_integer()) {
    take_integers(storage, by_rows, rows, k, {random, amax}, own);
    if (tally) count(by_rows, format.element, *this, *tally);
    return;
  }
  const bool fold = folds(storage);
  ScalesApart apart{!fold || tally, std::move(scales)};
  quantize_block_values(format, storage.rounding, by_rows, rows, k, own, {random, amax}, &apart);
  scales = std::move(apart.blocks), outer = apart.tensor;
  if (!tally) return;
  count(by_rows, format.element, *this, *tally);
  if (!fold) return;
  for_rows(rows, k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t first = 0; first < k; first += grid.block_columns) {
        const float scale = scales[grid.index(i, first)];
        float* const x = own.data() + i * k + first;
        const std::size_t size = std::min(k - first, grid.block_columns);
        for (std::size_t j = 0; j < size; ++j) x[j] *= scale;
      }
  });
  scales.clear();
}

void PolicyOperand::take_integers(const Storage& storage, std::span<const float> by_rows, std::size_t rows,
                                  std::size_t k, const BlockOptions& options, std::span<float> own) {
  BlockArray array;
  quantize_blocks(*storage.block(), storage.rounding, by_rows, rows, k, array, options);
  outer = array.tensor_scale;
  array.tensor_scale = 1;
  scales.resize(grid.count());
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = array.step(i).value;
  // They are few in kind: with a zero point, or from a table.
  const BlockElement& element = storage.block()->element;
  float table[256] = {};
  for (unsigned code = 0; code < 256 && !element.is_affine(); ++code)
    table[code] = static_cast<float>(element.value(code & ((1u << element.bits()) - 1)));
  for_rows(rows, k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t first = 0; first < k; first += grid.block_columns) {
        const int zero = element.is_affine() ? array.zeros[grid.index(i, first)] : 0;
        for (std::size_t at = i * k + first; at < i * k + std::min(k, first + grid.block_columns); ++at)
          own[at] = element.is_affine() ? static_cast<float>(element.integer(array.codes[at]) - zero)
                                        : table[array.codes[at]];
      }
  });
}

void PolicyOperand::values(std::size_t rows, std::size_t k, std::vector<float>& to) const {
  to.assign(elements.begin(), elements.end());
  if (!scaled()) return;
  for_rows(rows, k, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < k; ++j) to[i * k + j] *= (scales.empty() ? 1.0f : scales[grid.index(i, j)]) * outer;
  });
}

FloatOperands elements_of(const PolicyOperand& a, const PolicyOperand& b, std::size_t m, std::size_t n, std::size_t k) {
  FloatOperands x;
  x.m = m, x.n = n, x.k = k;
  x.a = a.elements, x.b = b.elements;
  x.transpose_a = a.transposed, x.transpose_b = !b.transposed;
  return x;
}

void multiply_scaled(const ProductModel& model, const PolicyOperand& a, const PolicyOperand& b, std::size_t m,
                     std::size_t n, std::size_t k, std::uint64_t first_stream, std::span<float> d) {
  const auto scales = [](const PolicyOperand& x) { return OperandScales{x.grid, x.scales, x.outer}; };
  block_gemm(model, elements_of(a, b, m, n, k), scales(a), scales(b), d, first_stream);
}

}  // namespace halfulp::training
