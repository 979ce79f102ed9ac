#include <halfulp/data/quantized_tensor.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/data/tensor_files.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace halfulp {
namespace {

std::uint64_t product(std::span<const std::uint64_t> sizes) {
  std::uint64_t all = 1;
  for (const std::uint64_t n : sizes) all *= n;
  return all;
}

/// Elements in C order of a tensor that came in Fortran order.
std::vector<double> in_c_order(const std::vector<double>& values, const std::vector<std::uint64_t>& shape) {
  std::vector<double> out(values.size());
  std::vector<std::uint64_t> at(shape.size(), 0);
  for (const double value : values) {  // the first index runs fastest
    std::uint64_t index = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) index = index * shape[k] + at[k];
    out[index] = value;
    for (std::size_t k = 0; k < shape.size() && ++at[k] == shape[k]; ++k) at[k] = 0;
  }
  return out;
}

/// Elements that are rounded at a time: what is computed beside the tensor stays small.
constexpr std::size_t part_size = std::size_t{1} << 18;

/// Zeros in the place of a format's subnormal numbers, which are normal as doubles.
void flush(const FloatFormat& f, std::span<double> values) {
  const double least = f.value(f.min_normal());
  for (double& x : values)
    if (std::fabs(x) < least) x = std::copysign(0.0, x);
}

Quantized quantize_plain(FileTensor&& tensor, const FloatFormat& f, const Rounding& rounding, std::uint64_t seed) {
  Quantized q;
  q.values = std::move(tensor.values);
  const double most = f.value(f.max_finite());
  const ValueRange range{f.is_signed ? -most : -INFINITY, most};
  std::vector<double> before, given;
  for (std::size_t first = 0; first < q.values.size(); first += part_size) {
    stop_if_interrupted();
    const auto part = std::span(q.values).subspan(first, std::min(part_size, q.values.size() - first));
    before.assign(part.begin(), part.end()), given = before;
    if (rounding.flush_inputs) flush(tensor.format, given);
    quantize(f, rounding, given, part, {seed, 0, first});
    for (std::size_t i = 0; i < part.size(); ++i) q.loss.count(before[i], part[i], range);
  }
  q.bits_per_element = f.storage_bits();
  return q;
}

/// A matrix among several of the tensor, and how blocks lie in it.
struct Layout {
  BlockFormat format;
  std::uint64_t matrices = 1, rows = 1, columns = 1;
  std::vector<std::uint64_t> scales_shape;
};

Layout layout_of(const BlockFormat& f, const std::vector<std::uint64_t>& shape, std::optional<int> axis) {
  const int dimensions = static_cast<int>(shape.size());
  Layout l;
  l.format = f;
  const bool along_axis = f.rows == 1;
  if (axis && !along_axis)
    throw std::invalid_argument(fmt::format("--axis is {}, and blocks of {} ({}) do not run along one axis", *axis,
                                            format_name(f), shape_name(f)));
  if (axis && (*axis >= dimensions || *axis < -dimensions))
    throw std::invalid_argument(
        dimensions == 0
            ? fmt::format("--axis is {}, and the array has no axes; accepted: no --axis", *axis)
            : fmt::format("--axis is {}; accepted: an integer from {} to {}", *axis, -dimensions, dimensions - 1));
  const std::span<const std::uint64_t> sizes(shape);
  if (dimensions == 0 || (f.rows == 0 && f.columns == 0)) {
    l.columns = product(sizes);
    return l;
  }
  const std::size_t last = shape.size() - 1;
  if (!along_axis) {
    if (last > 0) l.matrices = product(sizes.first(last - 1)), l.rows = shape[last - 1];
    l.columns = shape[last];
    return l;
  }
  const std::size_t k = axis ? static_cast<std::size_t>(*axis < 0 ? *axis + dimensions : *axis) : last;
  if (k == last) {
    l.rows = product(sizes.first(last)), l.columns = shape[last];
    return l;
  }
  l.matrices = product(sizes.first(k)), l.rows = shape[k], l.columns = product(sizes.subspan(k + 1));
  l.format.rows = f.columns, l.format.columns = 1;
  return l;
}

/// Of infinities and numbers: NaN says nothing about a scale.
float amax_without_nan(std::span<const double> values) {
  double amax = 0;
  for (const double value : values)
    if (!std::isnan(value)) amax = std::max(amax, std::fabs(value));
  float as_float = 0;
  narrow_doubles({&amax, 1}, RoundingMode::to_odd, {&as_float, 1});
  return as_float;
}

/// Counts what became of the elements of whole blocks.
void count(Loss& loss, const BlockArray& a, const BlockGrid& g, std::span<const double> before,
           std::span<const float> after) {
  const std::size_t width = std::min(g.block_columns, g.columns);  // blocks may be wider than the array
  const ValueRange range = range_of(a.format.element);
  for (std::size_t row = 0; row < g.rows; ++row)
    for (std::size_t b = 0; b < g.across; ++b) {
      const BlockStep step = a.step(row / g.block_rows * g.across + b);
      const ValueRange in_block{(range.low - step.zero) * step.value, (range.high - step.zero) * step.value};
      const std::size_t first = row * g.columns + b * width, end = first + std::min(width, g.columns - b * width);
      for (std::size_t i = first; i < end; ++i) loss.count(before[i], after[i], in_block);
    }
}

Quantized quantize_in_blocks(FileTensor&& tensor, const BlockFormat& f, const Rounding& rounding, std::uint64_t seed,
                             std::optional<int> axis) {
  const Layout l = layout_of(f, tensor.shape, axis);
  BlockOptions options;
  if (f.tensor_scale) options.amax = amax_without_nan(tensor.values);  // one for all matrices
  Quantized q;
  q.values = std::move(tensor.values);
  // block_grid counts no blocks at all where one of the sizes is zero; here the other keeps its own.
  const auto blocks = [](std::uint64_t size, std::uint64_t block) {
    return block == 0 ? std::uint64_t{size > 0} : size / block + (size % block != 0);
  };
  q.scales_shape = {blocks(l.rows, l.format.rows), blocks(l.columns, l.format.columns)};
  std::vector<double> before;
  std::vector<float> in, out;
  if (!q.values.empty()) {
    const BlockGrid whole = block_grid(l.format, l.rows, l.columns);
    // Rows of a matrix at a time, of whole blocks.
    const std::size_t few = std::max<std::size_t>(1, part_size / l.columns / whole.block_rows) * whole.block_rows;
    for (std::uint64_t row = 0; row < l.matrices * l.rows;) {
      stop_if_interrupted();
      const std::size_t rows = std::min<std::size_t>(few, l.rows - row % l.rows);
      const auto part = std::span(q.values).subspan(row * l.columns, rows * l.columns);
      before.assign(part.begin(), part.end()), in.resize(part.size()), out.resize(part.size());
      narrow_doubles(before, RoundingMode::to_odd, in);
      options.random = {seed, 0, row * l.columns};
      const BlockArray a = quantize_blocks(l.format, rounding, in, rows, l.columns, options);
      dequantize_blocks(a, out);
      count(q.loss, a, block_grid(l.format, rows, l.columns), before, out);
      std::copy(out.begin(), out.end(), part.begin());
      q.codes.insert(q.codes.end(), a.codes.begin(), a.codes.end());
      q.scales.insert(q.scales.end(), a.scales.begin(), a.scales.end());
      q.zeros.insert(q.zeros.end(), a.zeros.begin(), a.zeros.end());
      if (f.tensor_scale) q.tensor_scale = a.tensor_scale;
      row += rows;
    }
  }
  if (l.matrices != 1) q.scales_shape.insert(q.scales_shape.begin(), l.matrices);
  const double shared = static_cast<double>(q.scales.size()) *
                            (f.scale.storage_bits() + (f.element.is_affine() ? f.element.bits() : 0)) +
                        (f.tensor_scale ? 32 : 0);
  q.bits_per_element = f.element.bits() + (q.values.empty() ? 0 : shared / static_cast<double>(q.values.size()));
  return q;
}

}  // namespace

ColumnLoss column_loss(std::span<const double> before, std::span<const double> after, std::size_t columns,
                       std::size_t column) {
  double errors[2] = {0, 0}, squares[2] = {0, 0}, zeroed = 0, others = 0;
  std::size_t finite[2] = {0, 0};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t is_it = i % columns == column;
    others += !is_it, zeroed += !is_it && after[i] == 0 && before[i] != 0;
    if (!std::isfinite(after[i])) continue;
    const double e = after[i] - before[i];
    errors[is_it] += e * e, squares[is_it] += before[i] * before[i], ++finite[is_it];
  }
  const auto ratio = [&](std::size_t of) {
    return finite[of] && squares[of] > 0 ? std::sqrt(errors[of] / squares[of]) : NAN;
  };
  return {ratio(0), ratio(1), others > 0 ? zeroed / others : 0};
}

FileTensor read_tensor(const std::string& path) {
  NpyReader npy(path);
  FileTensor t{npy.header().format, npy.header().shape, {}};
  constexpr std::uint64_t at_first = 1 << 20;  // of a pipe, which may not give what its header promises
  t.values.reserve(npy.data_offset() ? npy.header().count : std::min(npy.header().count, at_first));
  std::vector<std::uint64_t> codes(1 << 16);
  const Rounding as_is{.nan = NanRule::keep};
  while (const std::size_t n = npy.read(codes)) {
    stop_if_interrupted();
    for (std::size_t i = 0; i < n; ++i)  // a NaN keeps its bits
      t.values.push_back(t.format.is_nan(codes[i])
                             ? std::bit_cast<double>(convert(t.format, fp64, as_is, codes[i]).code)
                             : t.format.value(codes[i]));
  }
  if (npy.header().fortran_order && t.shape.size() > 1) t.values = in_c_order(t.values, t.shape);
  return t;
}

AnyFormat parse_any_format(const std::string& name) {
  if (names_block_format(name)) return parse_block_format(name);
  try {
    return parse_format(name);
  } catch (const std::invalid_argument& error) {
    if (!std::string_view(error.what()).starts_with("unknown ")) throw;  // it says what is wrong with a format's name
    std::vector<std::string> names;
    for (const NamedFormat& row : catalogue()) names.emplace_back(row.name);
    for (const NamedBlockFormat& row : block_catalogue()) names.emplace_back(row.name);
    throw std::invalid_argument(unknown_name("format", name, std::move(names)) +
                                ", eXmY[bBIAS][ieee|fn|fnuz|p3109|finite], or ELEMENT/SHAPE/SCALE[/RULE][/OPTION...] "
                                "such as e4m3/1x64/e8m0/rceil");
  }
}

Quantized quantize_tensor(FileTensor tensor, const AnyFormat& format, const Rounding& rounding, std::uint64_t seed,
                          std::optional<int> axis) {
  if (const auto* plain = std::get_if<FloatFormat>(&format)) {
    if (axis)
      throw std::invalid_argument(fmt::format("--axis is for block formats, and {} is none", format_name(*plain)));
    return quantize_plain(std::move(tensor), *plain, rounding, seed);
  }
  return quantize_in_blocks(std::move(tensor), std::get<BlockFormat>(format), rounding, seed, axis);
}

}  // namespace halfulp
