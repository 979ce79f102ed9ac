// A tensor of a checkpoint as formats see it, and the parts in which it is looked at or written: none has to be in
// memory as a whole.
#pragma once

#include <halfulp/data/model_tensors.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/experiments/losses.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace halfulp::checkpoint {

/// How formats see a tensor: `matrices` matrices of rows, along which blocks lie. A tensor of one axis is a row; of
/// three axes each matrix of the last two has blocks of its own; of four and more, as the kernels of convolutions, the
/// first axis counts rows and the others are one row.
struct MatrixView {
  std::uint64_t matrices = 1, rows = 1, columns = 1;
};
MatrixView view_of(const std::vector<std::uint64_t>& shape);

/// Elements that stay in the second-level cache while every format rounds them.
inline constexpr std::uint64_t piece_size = std::uint64_t{1} << 16;

/// Whether one step serves all elements, whatever their places.
bool by_value(const AnyFormat& format);

/// Part of a matrix.
struct Part {
  std::uint64_t matrix, row, rows, column, columns;
  std::uint64_t elements() const { return rows * columns; }
};

/// The parts of a tensor, in order: whole rows, or with `splits_rows` parts of rows that are very long. No block of any
/// of the formats lies in two.
std::vector<Part> parts_of(const MatrixView& view, const std::vector<const AnyFormat*>& formats, bool splits_rows);

/// read(first element, where to): a part row by row, or at once where its rows follow each other.
template <class T, class Read>
void gather(const MatrixView& view, const Part& part, std::vector<T>& to, Read read) {
  to.resize(part.elements());
  const std::uint64_t first = (part.matrix * view.rows + part.row) * view.columns + part.column;
  if (part.columns == view.columns) return read(first, std::span<T>(to));
  for (std::uint64_t row = 0; row < part.rows; ++row)
    read(first + row * view.columns, std::span<T>(to).subspan(row * part.columns, part.columns));
}

/// The numbers of a part. Those of fp64 are there twice: rounded to odd, as ModelTensor::read gives them, and exactly.
struct PartValues {
  std::vector<float> floats;
  std::vector<double> exact;  ///< of other tensors empty: floats are exact
};
void read_part(const ModelTensor& tensor, const MatrixView& view, const Part& part, PartValues& to);

/// What a block can hold of values, from what its elements can.
ValueRange value_range(ValueRange elements, const BlockStep& step);
/// The same as a run of values, which have their block's scale already.
ElementRun value_run(ValueRange elements, const BlockStep& step);
/// All `count` elements of some values in one block.
BlockGrid one_block(std::size_t count);
/// What became of some rows of values, added to `loss`: before[i] became elements[i] times the scale of its block,
/// where blocks lie as `grid` says and `runs` has one of each. `squares`: the sum of squares of `before`, not finite if
/// one of them is not.
void add_losses(Loss& loss, std::span<const float> before, std::span<const float> elements, const BlockGrid& grid,
                std::span<const ElementRun> runs, double squares);
/// The same of numbers of fp64, one by one: `ranges` are those of the values of each block.
void add_losses(Loss& loss, std::span<const double> before, std::span<const float> elements, const BlockGrid& grid,
                std::span<const ElementRun> runs, std::span<const ValueRange> ranges);

}  // namespace halfulp::checkpoint
