// Softmax over rows.
#pragma once

#include <halfulp/experiments/data/smooth_functions.hpp>
#include <halfulp/experiments/training/module.hpp>

#include <limits>

namespace halfulp::training {

template <class T>
struct RowSoftmax {
  T largest, sum;
};

/// e^(x - largest of x) and their sum. A row of -Inf alone has largest 0, and sum 0.
template <class T>
RowSoftmax<T> exponentials_of_row(const Numerics<T>& numerics, const Site& site, std::span<const T> x, std::span<T> exponentials) {
  T largest = -std::numeric_limits<T>::infinity();
  for (const T v : x) largest = v > largest || v != v ? v : largest;  // NaN is passed on
  if (largest == -std::numeric_limits<T>::infinity()) largest = 0;
  for (std::size_t j = 0; j < x.size(); ++j) exponentials[j] = x[j] - largest;
  numerics.inner(site, exponentials);
  smooth_exponentials<T>(exponentials, exponentials);
  numerics.inner(site, exponentials);
  return {largest, numerics.sum(site, exponentials)};
}

/// y = e^x / sum of e^x over the last axis; dx = y (dy - sum of y dy).
template <class T>
class Softmax : public Module<T> {
 public:
  using Module<T>::Module;
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;

 private:
  Tensor<T> y_, dx_;
};

/// The same in place, on rows of `columns`, for attention too.
template <class T>
void softmax_rows(Pass<T>& pass, const Site& site, std::size_t columns, std::span<T> x);
/// From y and dy to dx, which may be the memory of dy.
template <class T>
void softmax_rows_backward(Pass<T>& pass, const Site& site, std::size_t columns, std::span<const T> y, std::span<const T> dy,
    std::span<T> dx);

extern template class Softmax<float>;
extern template class Softmax<double>;

}  // namespace halfulp::training
