// Operands as the vector kernels read them: floats, the vectors of a panel side by side.
#pragma once

#include <halfulp/emulation/array/scratch.hpp>
#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/half.hpp>
#include <halfulp/emulation/product/plan.hpp>

#include <cstdint>
#include <vector>

namespace halfulp::products {

/// Vectors (rows of A, columns of B) side by side: component p of vector v lies at [v / width * width * depth + p *
/// width + v % width]. Missing vectors of the last panel are zeros.
struct Panels {
  std::size_t width = 0, depth = 0;
  array::Scratch<float> values;
  std::vector<MagnitudeRange> extents;   ///< of each panel
  array::Scratch<std::uint32_t> halves;  ///< the same values for half.hpp; or none

  const float* panel(std::size_t index) const { return values.data() + index * width * depth; }
  const std::uint32_t* half_panel(std::size_t index) const {
    return halves.data() ? halves.data() + index * (width == panel_rows ? half_rows : half_columns) * depth : nullptr;
  }
};

/// How an operand lies in memory: `lines` of `length` elements, `leading` apart. A line is a vector, or one component
/// of all vectors.
struct Lines {
  std::size_t lines, length, leading;
  bool are_vectors;
};

/// Makes panels of panel_rows (rows of A) or panel_columns (columns of B), from code words or from values, flushed.
/// Halves too where they are wanted.
Panels pack(const CodeWords& words, const FloatFormat& f, const Lines& lines, std::size_t width, const Flushed& flushed,
            bool halves);
Panels pack(std::span<const float> values, const FloatFormat& f, const Lines& lines, std::size_t width,
            const Flushed& flushed, bool halves);

/// Magnitudes below a limit become zero, of their sign or positive.
void flush_below(float limit, std::span<float> values, bool keeps_sign = true);

}  // namespace halfulp::products
