// Operands as the kernels read them.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/plan.hpp>
#include <halfulp/emulation/product/by_vectors.hpp>

#include <vector>

namespace halfulp::products {

/// Vectors (rows of A, columns of B) side by side: component p of vector v at [v / width * width * depth + p * width +
/// v % width]. Vectors that are missing from the last panel are zeros.
struct Panels {
  std::size_t width = 0, depth = 0;
  Scratch values;
  std::vector<Extent> extents;  ///< of each panel

  const float* panel(std::size_t index) const { return values.data() + index * width * depth; }
};

/// How an operand lies in memory: `lines` of `length` elements, `leading` apart. Lines are vectors, or components.
struct Lines {
  std::size_t lines, length, leading;
  bool are_vectors;
};

/// Panels of panel_rows (rows of A) or panel_columns (columns of B), of code words or of values.
Panels pack(const CodeWords& words, const FloatFormat& f, const Lines& lines, std::size_t width);
Panels pack(std::span<const float> values, const FloatFormat& f, const Lines& lines, std::size_t width);

}  // namespace halfulp::products
