#include <halfulp/training/layers/activations.hpp>

namespace halfulp::training {

template class Relu<float>;
template class Relu<double>;
template class Dropout<float>;
template class Dropout<double>;

template <class T>
const Tensor<T>& Gelu<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  x_ = &x;
  y_.resize(x.extents());
  const T* const from = x.values().data();
  T* const to = y_.values().data();
  for_rows(y_.size(), 8,
           [=, this](std::size_t begin, std::size_t end) { gelu(form_, from + begin, to + begin, end - begin); });
  pass.numerics.cast({OperatorKind::gelu, this->name()}, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Gelu<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  dx_.resize(dy.extents());
  const T* const from = x_->values().data();
  const T* const d = dy.values().data();
  T* const to = dx_.values().data();
  for_rows(dx_.size(), 8, [=, this](std::size_t begin, std::size_t end) {
    gelu_backward(form_, from + begin, d + begin, to + begin, end - begin);
  });
  pass.numerics.cast({OperatorKind::gelu, this->name()}, Role::gradient_of_activation, dx_.values());
  return dx_;
}

template class Gelu<float>;
template class Gelu<double>;

template <class T>
void softmax_rows(Pass<T>& pass, const Site& site, std::size_t columns, std::span<T> x) {
  for_rows(x.size() / columns, 20 * columns, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<T> row = x.subspan(i * columns, columns);
      const RowSoftmax<T> s = exponentials_of_row<T>(pass.numerics, site, row, row);
      for (T& v : row) v /= s.sum;
    }
  });
  pass.numerics.cast(site, Role::activation, x);
}

template <class T>
void softmax_rows_backward(Pass<T>& pass, const Site& site, std::size_t columns, std::span<const T> y,
                           std::span<const T> dy, std::span<T> dx) {
  for_rows(y.size() / columns, 4 * columns, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t first = i * columns;
      T dot[] = {fixed_order_sum<T>(columns, [&](std::size_t j) { return y[first + j] * dy[first + j]; })};
      pass.numerics.inner(site, dot);
      for (std::size_t j = first; j < first + columns; ++j) dx[j] = y[j] * (dy[j] - dot[0]);
    }
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx);
}

template <class T>
const Tensor<T>& Softmax<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  y_.resize(x.extents());
  std::copy(x.values().begin(), x.values().end(), y_.values().begin());
  softmax_rows<T>(pass, {OperatorKind::softmax, this->name()}, x.columns(), y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Softmax<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  dx_.resize(dy.extents());
  softmax_rows_backward<T>(pass, {OperatorKind::softmax, this->name()}, dy.columns(), y_.values(), dy.values(),
                           dx_.values());
  return dx_;
}

template void softmax_rows(Pass<float>&, const Site&, std::size_t, std::span<float>);
template void softmax_rows(Pass<double>&, const Site&, std::size_t, std::span<double>);
template void softmax_rows_backward(Pass<float>&, const Site&, std::size_t, std::span<const float>,
                                    std::span<const float>, std::span<float>);
template void softmax_rows_backward(Pass<double>&, const Site&, std::size_t, std::span<const double>,
                                    std::span<const double>, std::span<double>);
template class Softmax<float>;
template class Softmax<double>;

}  // namespace halfulp::training
