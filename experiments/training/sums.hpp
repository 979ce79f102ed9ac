// Sums in an order of our own, which vectors of any width can follow.
#pragma once

#include <halfulp/experiments/training/rows.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace halfulp::training {

/// Sixteen partial sums, element i into partial sum i mod 16, then added pairwise: 8 and 8, 4 and 4, 2 and 2, 1 and 1.
/// `term(i)` is element i.
template <class T, class Term>
T fixed_order_sum(std::size_t count, Term&& term) {
  constexpr std::size_t lanes = 16;
  T partial[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  for (std::size_t lane = 0; i + lane < count; ++lane) partial[lane] += term(i + lane);
  for (std::size_t half = lanes / 2; half >= 1; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  return partial[0];
}

template <class T>
T fixed_order_sum(std::span<const T> values) {
  return fixed_order_sum<T>(values.size(), [&](std::size_t i) { return values[i]; });
}

/// sums[j] = values[0][j] + values[1][j] + ..., one row after the other.
template <class T>
void fixed_order_column_sums(std::size_t columns, std::span<const T> values, std::span<T> sums) {
  constexpr std::size_t group = 16;  // neighbours go to one thread: they share cache lines
  const std::size_t rows = columns ? values.size() / columns : 0;
  for_rows((columns + group - 1) / group, group * rows, [=](std::size_t begin, std::size_t end) {
    for (std::size_t first = begin * group; first < std::min(end * group, columns); first += group) {
      const std::size_t count = std::min(group, columns - first);
      T partial[group] = {};
      for (const T* row = values.data() + first; row < values.data() + rows * columns; row += columns) {
        if (count == group)
          for (std::size_t j = 0; j < group; ++j) partial[j] += row[j];
        else
          for (std::size_t j = 0; j < count; ++j) partial[j] += row[j];
      }
      std::copy_n(partial, count, sums.data() + first);
    }
  });
}

}  // namespace halfulp::training
