// Operands as the kernels read them.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/products/plan.hpp>

#include <hwy/aligned_allocator.h>

#include <vector>

namespace halfulp::products {

/// Vectors (rows of A, columns of B) side by side: component p of vector v at [v / width * width * depth + p * width + v % width].
/// Vectors that are missing from the last panel are zeros.
struct Panels {
  std::size_t width = 0, depth = 0;
  hwy::AlignedFreeUniquePtr<float[]> values;
  std::vector<Extent> extents;  ///< of each panel

  const float* panel(std::size_t index) const { return values.get() + index * width * depth; }
};

/// Component p of vector v is at values[v * of_vector + p * of_component].
Panels pack(const float* values, std::size_t vectors, std::size_t depth, std::size_t width, std::size_t of_vector, std::size_t of_component);

}  // namespace halfulp::products
