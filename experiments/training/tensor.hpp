// Numbers with a shape: what layers hand to each other.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
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
  /// The last extent, and the product of all before it.
  std::size_t columns() const { return rank_ ? extents_[rank_ - 1] : 0; }
  std::size_t rows() const { return columns() ? size() / columns() : 0; }
  /// The same with another last extent.
  Extents with_columns(std::size_t columns) const {
    Extents e = *this;
    e.extents_[rank_ - 1] = columns;
    return e;
  }
  /// The same with one axis more, the last. Precondition: fewer than four.
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

/// Contiguous values in row-major order. T is float in training (values of narrow formats too are held as floats) and double
/// for finite differences.
template <class T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Extents& extents) { resize(extents); }
  Tensor(const Extents& extents, std::initializer_list<T> values) : extents_(extents), values_(values) {}

  /// Another shape. Memory is kept, so that buffers of a training loop are allocated once; values are left over from before, new
  /// ones 0.
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

}  // namespace halfulp::training
