// Operands of matrix products: code words or values in row-major order, with or without gaps, transposed or not.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace halfulp {

/// Code words of 1, 2, 4 or 8 bytes, not owned.
class CodeWords {
 public:
  CodeWords() = default;
  template <std::unsigned_integral T>
  CodeWords(std::span<const T> words)
      : data_(words.data()), size_(words.size()), bytes_(sizeof(T)) {}  ///< Of constant words.
  template <std::unsigned_integral T>
  CodeWords(std::span<T> words) : CodeWords(std::span<const T>(words)) {}  ///< Of other words.
  const void* data() const { return data_; }                               ///< the first word
  std::size_t size() const { return size_; }                               ///< how many words
  bool empty() const { return size_ == 0; }                                ///< whether there are none
  int bytes() const { return bytes_; }                                     ///< of a word: 1, 2, 4 or 8
  /// `count` words from `at` on, by default all that follow.
  CodeWords subspan(std::size_t at, std::size_t count = std::dynamic_extent) const {
    CodeWords part = *this;
    part.data_ = static_cast<const char*>(data_) + at * static_cast<std::size_t>(bytes_);
    part.size_ = std::min(count, size_ - at);
    return part;
  }
  /// f(pointer to the first word, as its own type).
  template <class F>
  decltype(auto) visit(F&& f) const {
    switch (bytes_) {
      case 1: return f(static_cast<const std::uint8_t*>(data_));
      case 2: return f(static_cast<const std::uint16_t*>(data_));
      case 4: return f(static_cast<const std::uint32_t*>(data_));
      default: return f(static_cast<const std::uint64_t*>(data_));
    }
  }
  /// Word i.
  std::uint64_t operator[](std::size_t i) const {
    return visit([i](const auto* p) { return std::uint64_t{p[i]}; });
  }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  int bytes_ = 8;
};

/// Where element (i, j) of an operand lies.
struct Placement {
  std::size_t row = 0, column = 1;  ///< words from one row, from one column to the next
  std::size_t operator()(std::size_t i, std::size_t j) const {
    return i * row + j * column;
  }  ///< The index of element (i, j).
};

/// The operands of D = A B + C, A of m x k, B of k x n, C and D of m x n, each in row-major order; and, for a matrix
/// unit with scales, one scale for `scale_block` products (the last block may be shorter): scale_a m x blocks, scale_b
/// blocks x n.
///
/// With transpose_a the memory of A holds A^T, k x m in row-major order; with transpose_b that of B holds B^T, n x k.
/// A leading dimension is the distance in words from one row in memory to the next; 0: rows without gaps. A matrix with
/// a leading dimension may end after its last element. C may be empty: then nothing is added.
template <class Words>
struct MatrixOperands {
  std::size_t m = 0, n = 0, k = 0;                           ///< shapes, as above
  Words a = {}, b = {}, c = {}, scale_a = {}, scale_b = {};  ///< the matrices; scales for units that take them
  std::size_t lda = 0, ldb = 0, ldc = 0, ldd = 0;            ///< leading dimensions, 0: without gaps
  bool transpose_a = false, transpose_b = false;             ///< how A and B lie in memory

  Placement place_a() const { return place(transpose_a, m, k, lda); }  ///< Where elements of A lie.
  Placement place_b() const { return place(transpose_b, k, n, ldb); }  ///< Where elements of B lie.
  Placement place_c() const { return {ldc ? ldc : n, 1}; }             ///< Where elements of C lie.
  Placement place_d() const { return {ldd ? ldd : n, 1}; }             ///< Where elements of D lie.

  /// Product i of several of this size, whose operands lie one after the other without gaps.
  MatrixOperands nth(std::size_t i) const {
    MatrixOperands x = *this;
    x.a = a.subspan(i * m * k, m * k), x.b = b.subspan(i * k * n, k * n);
    if (!c.empty()) x.c = c.subspan(i * m * n, m * n);
    return x;
  }
  /// The operands of rows [first, first + count) of D.
  MatrixOperands rows(std::size_t first, std::size_t count) const {
    MatrixOperands x = *this;
    const auto part = [&](const Words& words, std::size_t row, std::size_t length) {
      return words.subspan(first * row, std::min(length, words.size() - first * row));
    };
    x.m = count;
    x.a = part(a, place_a().row, transpose_a || lda ? a.size() : count * k);
    if (transpose_a) x.lda = place_a().column;
    if (!c.empty()) x.c = part(c, place_c().row, ldc ? c.size() : count * n);
    if (m != 0) x.scale_a = part(scale_a, scale_a.size() / m, count * (scale_a.size() / m));
    return x;
  }
  /// The operands of products [begin, end) along k, without C. Units with scales are not cut.
  MatrixOperands along_k(std::size_t begin, std::size_t end) const {
    MatrixOperands x = *this;
    x.k = end - begin;
    x.lda = transpose_a ? place_a().column : place_a().row, x.ldb = transpose_b ? place_b().column : place_b().row;
    x.a = a.subspan(begin * place_a().column), x.b = b.subspan(begin * place_b().row);
    x.c = {};
    return x;
  }

 private:
  static Placement place(bool transposed, std::size_t rows, std::size_t columns, std::size_t leading) {
    if (transposed) return {1, leading ? leading : rows};
    return {leading ? leading : columns, 1};
  }
};

/// Code words.
using GemmOperands = MatrixOperands<CodeWords>;
/// Values of the formats as floats.
using FloatOperands = MatrixOperands<std::span<const float>>;

/// Checks operands. Every function throws std::invalid_argument in one line that begins with `where` and names the
/// operand.
struct Checker {
  std::string where;  ///< how every refusal begins

  [[noreturn]] void refuse(const std::string& why) const;
  /// Refuses matrices of more than 2^40 words, whose sizes could overflow.
  void sizes(std::size_t m, std::size_t n, std::size_t k) const;
  /// Refuses a `size` that is not rows x columns or, with a leading dimension, ends before the last element.
  void extent(const std::string& name, std::size_t size, std::size_t rows, std::size_t columns,
              std::size_t leading) const;
  /// The same; also refuses words of more than `bits` bits.
  void words(const std::string& name, const CodeWords& words, std::size_t rows, std::size_t columns,
             std::size_t leading, int bits, const std::string& format) const;
  /// Refuses a D that shares bytes with an operand.
  void apart(const std::string& name, const void* words, std::size_t bytes, const void* d, std::size_t d_bytes) const;

  /// Calls f(name, words, rows and columns in memory, leading dimension) for A, B and, if present, C.
  template <class Words, class F>
  void each(const MatrixOperands<Words>& x, F f) const {
    sizes(x.m, x.n, x.k);
    x.transpose_a ? f("A", x.a, x.k, x.m, x.lda) : f("A", x.a, x.m, x.k, x.lda);
    x.transpose_b ? f("B", x.b, x.n, x.k, x.ldb) : f("B", x.b, x.k, x.n, x.ldb);
    if (x.c.size() != 0) f("C", x.c, x.m, x.n, x.ldc);
  }
};

}  // namespace halfulp
