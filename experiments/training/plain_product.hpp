// Matrix products in T's own arithmetic, in a fixed order.
#pragma once

#include <halfulp/emulation/matrix.hpp>

#include <span>
#include <vector>

namespace halfulp::training {

/// D = A B + C + bias: sums start with the first product and take one after the other, k ascending, each product and each sum
/// rounded to T; then C is added, then the bias (a row of n, or none). The same bits on any number of threads and with vectors of
/// any width. D may be the memory of C, placed alike. An object serves one caller at a time: it keeps its scratch memory.
/// `count` products may be asked for at once: their A, B, C and D then lie one after the other, without gaps.
template <class T>
class PlainProduct {
 public:
  void multiply(const MatrixOperands<std::span<const T>>& x, std::span<const T> bias, std::span<T> d, std::size_t count = 1);

 private:
  std::vector<T> panels_;
};

extern template class PlainProduct<float>;
extern template class PlainProduct<double>;

}  // namespace halfulp::training
