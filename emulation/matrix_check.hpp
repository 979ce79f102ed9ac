// What is wrong with matrices as they were handed over, in one line.
#pragma once

#include <halfulp/emulation/matrix.hpp>

#include <string>

namespace halfulp {

/// Every function throws std::invalid_argument, beginning with `where` and naming the operand, if something is wrong.
struct Checker {
  std::string where;

  [[noreturn]] void refuse(const std::string& why) const;
  /// More than 2^40 words a matrix would not be counted rightly.
  void sizes(std::size_t m, std::size_t n, std::size_t k) const;
  /// Whether `size` words are rows x columns in memory: exactly, or with a leading dimension at least up to the last element.
  void extent(const std::string& name, std::size_t size, std::size_t rows, std::size_t columns, std::size_t leading) const;
  /// The same, and words of at most so many bits.
  void words(const std::string& name, const CodeWords& words, std::size_t rows, std::size_t columns, std::size_t leading, int bits, const std::string& format) const;
  /// Whether D and an operand share no byte.
  void apart(const std::string& name, const void* words, std::size_t bytes, const void* d, std::size_t d_bytes) const;

  /// Extents of A, B and C as MatrixOperands has them: f(name, words, rows, columns in memory, leading dimension).
  template <class Words, class F>
  void each(const MatrixOperands<Words>& x, F f) const {
    sizes(x.m, x.n, x.k);
    x.transpose_a ? f("A", x.a, x.k, x.m, x.lda) : f("A", x.a, x.m, x.k, x.lda);
    x.transpose_b ? f("B", x.b, x.n, x.k, x.ldb) : f("B", x.b, x.k, x.n, x.ldb);
    if (x.c.size() != 0) f("C", x.c, x.m, x.n, x.ldc);
  }
};

}  // namespace halfulp
