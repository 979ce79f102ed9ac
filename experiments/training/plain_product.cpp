#include <halfulp/experiments/training/plain_product.hpp>

#include <halfulp/experiments/training/rows.hpp>

#include <algorithm>

namespace halfulp::training {
namespace {

/// A tile of D: rows that share a load of B, columns of one panel. As many sums as 16 vector registers hold beside the operands.
constexpr std::size_t tile_rows = 4, tile_columns = 8;

/// Columns [j0, j0 + 8) of B one after the other for each k, zeros beyond n: what the tiles read then lies in sequence.
template <class T>
void pack(const MatrixOperands<std::span<const T>>& x, const T* b, std::size_t panel, T* to) {
  const Placement place = x.place_b();
  const std::size_t j0 = panel * tile_columns, columns = std::min(tile_columns, x.n - j0);
  for (std::size_t k = 0; k < x.k; ++k)
    for (std::size_t j = 0; j < tile_columns; ++j) to[k * tile_columns + j] = j < columns ? b[place(k, j0 + j)] : T{0};
}

/// Which of several products: where its operands and its result begin. C is null if there is none.
template <class T>
struct Memory {
  const T *a, *c, *panels;
  T* d;
};

template <class T>
void multiply_tile(const MatrixOperands<std::span<const T>>& x, std::span<const T> bias, const Memory<T>& of, std::size_t i0,
    std::size_t j0) {
  const std::size_t rows = std::min(tile_rows, x.m - i0), columns = std::min(tile_columns, x.n - j0);
  const Placement a = x.place_a(), c = x.place_c(), at = x.place_d();
  const T* const panel = of.panels + j0 * x.k;
  T sums[tile_rows][tile_columns];
  for (auto& row : sums) std::fill(row, row + tile_columns, x.k ? -T{0} : T{0});  // -0 + x is x for every x, -0 too
  // Rows beyond m repeat the last one: their sums are not stored.
  const T* row[tile_rows];
  for (std::size_t i = 0; i < tile_rows; ++i) row[i] = of.a + a(i0 + std::min(i, rows - 1), 0);
  for (std::size_t k = 0; k < x.k; ++k)
    for (std::size_t i = 0; i < tile_rows; ++i) {
      const T factor = row[i][k * a.column];
      for (std::size_t j = 0; j < tile_columns; ++j) sums[i][j] += factor * panel[k * tile_columns + j];
    }
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      const T sum = of.c ? sums[i][j] + of.c[c(i0 + i, j0 + j)] : sums[i][j];
      of.d[at(i0 + i, j0 + j)] = bias.empty() ? sum : sum + bias[j0 + j];
    }
}

}  // namespace

template <class T>
void PlainProduct<T>::multiply(const MatrixOperands<std::span<const T>>& x, std::span<const T> bias, std::span<T> d,
    std::size_t count) {
  const std::size_t panels = (x.n + tile_columns - 1) / tile_columns, tiles = (x.m + tile_rows - 1) / tile_rows;
  const std::size_t panel_size = x.k * tile_columns, packed_size = panels * panel_size;
  if (panels_.size() < count * packed_size) panels_.resize(count * packed_size);
  T* const packed = panels_.data();
  for_rows(count * panels, panel_size, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) pack(x, x.b.data() + p / panels * (x.k * x.n), p % panels, packed + p * panel_size);
  });
  // A row of tiles keeps its rows of A in the cache.
  for_rows(count * tiles, tile_rows * x.k * x.n / 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t t = begin; t < end; ++t) {
      const std::size_t which = t / tiles;
      const Memory<T> of{x.a.data() + which * (x.m * x.k), x.c.empty() ? nullptr : x.c.data() + which * (x.m * x.n),
                         packed + which * packed_size, d.data() + which * (x.m * x.n)};
      for (std::size_t p = 0; p < panels; ++p) multiply_tile(x, bias, of, t % tiles * tile_rows, p * tile_columns);
    }
  });
}

template class PlainProduct<float>;
template class PlainProduct<double>;

}  // namespace halfulp::training
