#include <halfulp/experiments/checkpoint/parts.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <variant>

namespace halfulp::checkpoint {
namespace {

/// A row that is longer is looked at in parts.
constexpr std::uint64_t longest_row = std::uint64_t{1} << 20;

}  // namespace

MatrixView view_of(const std::vector<std::uint64_t>& shape) {
  MatrixView view;
  const std::size_t axes = shape.size();
  if (axes == 0) return view;
  view.columns = shape.back();
  if (axes == 2 || axes == 3) view.rows = shape[axes - 2];
  if (axes == 3) view.matrices = shape[0];
  if (axes > 3) {
    view.rows = shape[0], view.columns = 1;
    for (std::size_t k = 1; k < axes; ++k) view.columns *= shape[k];
  }
  return view;
}

bool by_value(const AnyFormat& format) {
  const auto* const f = std::get_if<BlockFormat>(&format);
  return !f || (f->rows == 0 && f->columns == 0 && !f->tensor_scale);
}

std::vector<Part> parts_of(const MatrixView& view, const std::vector<const AnyFormat*>& formats, bool splits_rows) {
  std::uint64_t rows = 1, columns = 1;
  for (const AnyFormat* format : formats)
    if (const auto* const f = std::get_if<BlockFormat>(format); f && !by_value(*format)) {
      if (f->rows == 0 && f->columns != 0) rows = std::max<std::uint64_t>(view.rows, 1);  // blocks of whole columns
      else if (f->rows > 1)
        rows = std::lcm(rows, std::min<std::uint64_t>(f->rows, std::max<std::uint64_t>(view.rows, 1)));
      if (f->columns) columns = std::lcm(columns, std::min<std::uint64_t>(f->columns, view.columns + 1));
    }
  std::vector<Part> parts;
  if (view.rows == 0 || view.columns == 0) return parts;
  const bool split = splits_rows && view.columns > longest_row && columns < longest_row;
  const std::uint64_t width = split ? longest_row / columns * columns : view.columns;
  const std::uint64_t height = std::max(rows, piece_size / view.columns / rows * rows);
  for (std::uint64_t m = 0; m < view.matrices; ++m)
    for (std::uint64_t row = 0; row < view.rows; row += height)
      for (std::uint64_t column = 0; column < view.columns; column += width)
        parts.push_back({m, row, std::min(height, view.rows - row), column, std::min(width, view.columns - column)});
  return parts;
}

ValueRange value_range(ValueRange elements, const BlockStep& step) {
  const auto value = static_cast<double>(step.value);
  return {(elements.low - step.zero) * value, (elements.high - step.zero) * value};
}

ElementRun value_run(ValueRange elements, const BlockStep& step) {
  ElementRun run = element_run({elements.low - step.zero, elements.high - step.zero}, step.value);
  run.scale = 1;
  return run;
}

void read_part(const ModelTensor& tensor, const MatrixView& view, const Part& part, PartValues& to) {
  const auto read = [&](std::uint64_t at, auto some) { tensor.read(at, some); };
  gather(view, part, to.floats, read);
  to.exact.clear();
  if (tensor.is_wide()) gather(view, part, to.exact, read);
}

BlockGrid one_block(std::size_t count) { return {1, count, 1, count, 1, 1}; }

void add_losses(Loss& loss, std::span<const double> before, std::span<const float> elements, const BlockGrid& grid,
                std::span<const ElementRun> runs, std::span<const ValueRange> ranges) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t block = grid.index(i / grid.columns, i % grid.columns);
    loss.count(before[i], static_cast<double>(elements[i] * runs[block].scale), ranges[block]);
  }
}

void add_losses(Loss& loss, std::span<const float> before, std::span<const float> elements, const BlockGrid& grid,
                std::span<const ElementRun> runs, double squares) {
  const std::size_t count = before.size(), columns = grid.columns;
  const bool in_line = grid.block_rows == 1 && columns % grid.block_columns == 0;
  RunSums sums;
  if (in_line) add_runs(sums, before.data(), elements.data(), grid.block_columns, count, runs.data());
  for (std::size_t row = 0; row < grid.rows && !in_line; ++row)  // blocks of several rows, or a short one in each row
    add_runs(sums, before.data() + row * columns, elements.data() + row * columns, grid.block_columns, columns,
             runs.data() + row / grid.block_rows * grid.across);
  double errors = 0;
  for (const double e : sums.errors) errors += e;
  if (!std::isfinite(errors) || !std::isfinite(squares)) {
    for (std::size_t i = 0; i < count; ++i) {
      const ElementRun& run = runs[in_line ? i / grid.block_columns : grid.index(i / columns, i % columns)];
      loss.count(static_cast<double>(before[i]), static_cast<double>(elements[i] * run.scale),
                 {static_cast<double>(run.low), static_cast<double>(run.high)});
    }
    return;
  }
  loss.elements += count, loss.compared += count;
  loss.saturated += sums.saturated, loss.to_zero += sums.to_zero;
  loss.errors.add_sum(errors), loss.squares.add_sum(squares);
  for (const double e : sums.largest) loss.largest_error = std::max(loss.largest_error, e);
}

}  // namespace halfulp::checkpoint
