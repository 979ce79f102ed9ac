// Transposing floats in registers: for panels of products, and for operands whose blocks lie along columns.
#pragma once

#include <cstddef>
#include <cstring>

namespace halfulp::array {

/// to[j * step + i] = from[i][j], for four rows and four columns.
inline void transpose4(const float* const* from, float* to, std::size_t step) {
  using Four [[gnu::vector_size(16)]] = float;
  Four row[4];
  for (int i = 0; i < 4; ++i) std::memcpy(&row[i], from[i], sizeof(Four));
  const Four low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
             high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
             low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
             high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Four column[4] = {
      __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
      __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (std::size_t j = 0; j < 4; ++j) std::memcpy(to + j * step, &column[j], sizeof(Four));
}

}  // namespace halfulp::array
