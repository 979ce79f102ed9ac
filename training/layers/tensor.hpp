// Numbers with a shape: what layers hand to each other.
#pragma once

#include <halfulp/support/work.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace halfulp::training {

/// Up to four extents, the last axis fastest in memory.
class Extents {
 public:
  Extents() = default;
  Extents(std::initializer_list<std::size_t> extents) {
    for (const std::size_t n : extents) extents_[rank_++] = n;
  }
  std::size_t rank() const { return rank_; }
  std::size_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::size_t size() const {
    std::size_t n = 1;
    for (std::size_t i = 0; i < rank_; ++i) n *= extents_[i];
    return rank_ ? n : 0;
  }
  /// The last extent, and the product of all the others.
  std::size_t columns() const { return rank_ ? extents_[rank_ - 1] : 0; }
  std::size_t rows() const { return columns() ? size() / columns() : 0; }
  /// The same with another last extent.
  Extents with_columns(std::size_t columns) const {
    Extents e = *this;
    e.extents_[rank_ - 1] = columns;
    return e;
  }
  /// The same with one more axis at the end. Precondition: fewer than four axes.
  Extents appended(std::size_t columns) const {
    Extents e = *this;
    e.extents_[e.rank_++] = columns;
    return e;
  }
  friend bool operator==(const Extents&, const Extents&) = default;

 private:
  std::array<std::size_t, 4> extents_{};
  std::size_t rank_ = 0;
};

/// "64 x 784", for messages.
inline std::string text_of(const Extents& e) {
  std::string text;
  for (std::size_t i = 0; i < e.rank(); ++i) text += (i ? " x " : "") + std::to_string(e[i]);
  return text;
}

/// Contiguous values in row-major order. T is float in training, where floats also hold the values of narrow formats,
/// and double for finite differences.
template <class T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Extents& extents) { resize(extents); }
  Tensor(const Extents& extents, std::initializer_list<T> values) : extents_(extents), values_(values) {}

  /// Changes the shape. Keeps the memory, so that a training loop allocates its buffers once. Old values remain; new
  /// ones are 0.
  void resize(const Extents& extents) {
    extents_ = extents;
    values_.resize(extents.size());
  }
  const Extents& extents() const { return extents_; }
  std::size_t extent(std::size_t axis) const { return extents_[axis]; }
  std::size_t rows() const { return extents_.rows(); }
  std::size_t columns() const { return extents_.columns(); }
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }

  std::span<T> values() { return values_; }
  std::span<const T> values() const { return values_; }
  std::span<T> row(std::size_t i) { return values().subspan(i * columns(), columns()); }
  std::span<const T> row(std::size_t i) const { return values().subspan(i * columns(), columns()); }
  T& operator[](std::size_t i) { return values_[i]; }
  const T& operator[](std::size_t i) const { return values_[i]; }

 private:
  Extents extents_;
  std::vector<T> values_;
};

// Independent rows of a tensor on all threads. Nothing is added across rows here, so results do not depend on the
// number of threads.

/// Calls f(begin, end) on pieces of [0, rows). Where a row takes `cost` steps, each piece takes at least about ten
/// thousand.
template <class F>
void for_rows(std::size_t rows, std::size_t cost, F&& f) {
  constexpr std::size_t least = 1 << 14;
  const std::size_t grain = std::max<std::size_t>(1, least / std::max<std::size_t>(1, cost));
  if (rows <= grain) {
    if (rows > 0) f(std::size_t{0}, rows);
    return;
  }
  on_pieces(rows, grain, std::ref(f));
}

/// The same for f(begin, end, counts), which counts in each piece from 0. Adds all to `to`.
template <class Counts, class F>
void count_rows(std::size_t rows, std::size_t cost, Counts& to, const F& f) {
  std::mutex mutex;
  for_rows(rows, cost, [&](std::size_t begin, std::size_t end) {
    Counts own{};
    f(begin, end, own);
    const std::lock_guard lock(mutex);
    to += own;
  });
}

/// to[i] = f(i), where each i costs a step. f is copied, so that what it refers to stays in registers and the compiler
/// can vectorise the loop. For the same reason f should load all it may need before it branches.
template <class T, class F>
void for_elements(std::span<T> to, std::size_t cost, const F& f) {
  for_rows(to.size(), cost, [data = to.data(), f](std::size_t begin, std::size_t end) {
    T* const out = data;
    const F own = f;
    for (std::size_t i = begin; i < end; ++i) out[i] = own(i);
  });
}

// Sums in a fixed order that vectors of any width can follow.

/// Adds element i to partial sum i mod 16, then adds the sixteen partial sums pairwise: 8 and 8, 4 and 4, 2 and 2, 1
/// and 1. `term(i)` is element i.
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
  constexpr std::size_t group = 16;  // neighbours go to one thread, because they share cache lines
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
