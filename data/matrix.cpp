#include <halfulp/data/matrix.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::uint64_t largest_file = std::uint64_t{1} << 24;

double in_fp32(double x) { return double{static_cast<float>(x)}; }

}  // namespace

Matrix Matrix::first_columns(std::size_t count) const {
  Matrix m{rows, std::min(count, columns), {}};
  for (std::size_t i = 0; i < rows; ++i)
    m.values.insert(m.values.end(), values.begin() + static_cast<std::ptrdiff_t>(i * columns),
                    values.begin() + static_cast<std::ptrdiff_t>(i * columns + m.columns));
  return m;
}

Matrix sample_matrix(Samples samples, std::uint64_t seed, unsigned which, std::size_t rows, std::size_t columns) {
  Matrix m{rows, columns, std::vector<double>(rows * columns)};
  Distribution heavy;
  heavy.shape = Shape::student_t, heavy.degrees = 3;
  for (std::size_t i = 0; i < rows; ++i) {
    stop_if_interrupted();
    for (std::size_t k = 0; k < columns; ++k) {
      const std::uint64_t index = k * rows + i;
      double& v = m.values[i * columns + k];
      switch (samples) {
        case Samples::normal: v = in_fp32(normal_sample(seed, which, index)); break;
        case Samples::uniform: v = in_fp32(uniform_sample(seed, which, index)); break;
        case Samples::heavy_tailed: v = in_fp32(heavy.sample(seed, (std::uint64_t{which} << 40) + index)); break;
      }
    }
  }
  return m;
}

void scale_channel(Matrix& m, std::size_t channel, double factor) {
  for (std::size_t i = 0; i < m.rows; ++i)
    m.values[i * m.columns + channel] = in_fp32(m.values[i * m.columns + channel] * factor);
}

Matrix read_matrix(const std::string& what, const std::string& path) {
  NpyReader reader(path);
  const NpyHeader& h = reader.header();
  if (h.shape.size() != 2)
    throw std::invalid_argument(fmt::format("{}: {} has {} axes; a matrix has 2", what, path, h.shape.size()));
  if (h.count == 0)
    throw std::invalid_argument(
        fmt::format("{}: {} has the shape {} x {}: it is empty", what, path, h.shape[0], h.shape[1]));
  if (h.count > largest_file)
    throw std::invalid_argument(
        fmt::format("{}: {} has {} elements; at most {} are taken", what, path, h.count, largest_file));
  std::vector<std::uint64_t> codes(h.count);
  for (std::size_t done = 0; done < codes.size();) done += reader.read(std::span(codes).subspan(done));
  std::uint64_t none = 0;
  reader.read({&none, 1});  // notices what lies behind the data of a pipe
  Matrix m{h.shape[0], h.shape[1], {}};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    m.values.push_back(h.format.value(codes[i]));
    if (std::isfinite(m.values.back())) continue;
    const std::size_t row = h.fortran_order ? i % m.rows : i / m.columns,
                      column = h.fortran_order ? i / m.rows : i % m.columns;
    throw std::invalid_argument(fmt::format("{}: {} holds {} at row {}, column {}; accepted are finite values", what,
                                            path, std::isnan(m.values.back()) ? "NaN" : "Infinity", row, column));
  }
  if (!h.fortran_order) return m;
  std::swap(m.rows, m.columns);
  return transposed(m);
}

Matrix transposed(const Matrix& m) {
  Matrix t{m.columns, m.rows, {}};
  for (std::size_t k = 0; k < m.columns; ++k)
    for (std::size_t i = 0; i < m.rows; ++i) t.values.push_back(m.values[i * m.columns + k]);
  return t;
}

}  // namespace halfulp
