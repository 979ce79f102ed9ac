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
  const std::size_t rows = columns ? values.size() / columns : 0;
  for_rows(columns, rows, [&](std::size_t begin, std::size_t end) {
    std::fill(sums.begin() + static_cast<std::ptrdiff_t>(begin), sums.begin() + static_cast<std::ptrdiff_t>(end), T{0});
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = begin; j < end; ++j) sums[j] += values[i * columns + j];
  });
}

}  // namespace halfulp::training
