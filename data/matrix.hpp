// Matrices: seeded samples, or the user's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// By rows.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  /// The first so many columns.
  Matrix first_columns(std::size_t count) const;
};

enum class Samples : std::uint8_t { normal, uniform, heavy_tailed };
inline constexpr std::array<std::string_view, 3> sample_names{"normal", "uniform", "heavy-tailed"};

/// N(0, 1), uniform in (0, 1), or Student's t with 3 degrees of freedom, rounded to fp32. Element (i, k) does not
/// depend on the number of columns. `which` tells matrices of one seed apart.
Matrix sample_matrix(Samples samples, std::uint64_t seed, unsigned which, std::size_t rows, std::size_t columns);

/// Column `channel` times `factor`, rounded to fp32.
void scale_channel(Matrix& matrix, std::size_t channel, double factor);

/// A .npy file with two axes, finite and not empty. `what` begins the message of std::invalid_argument otherwise.
Matrix read_matrix(const std::string& what, const std::string& path);
Matrix transposed(const Matrix& matrix);

}  // namespace halfulp
