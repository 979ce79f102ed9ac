#include <halfulp/training/layers/activations.hpp>

#include <halfulp/data/elementary.hpp>

namespace halfulp::training {
namespace {

constexpr double root_two_over_pi = 0.79788456080286535588, cubic = 0.044715;

template <class T>
T inside_tanh(T x) {
  return static_cast<T>(root_two_over_pi) * (x + static_cast<T>(cubic) * (x * x * x));
}

template <class T>
T tanh_slope(T x) {
  const T t = smooth_tanh(inside_tanh(x));
  return (1 + t) / 2 +
         x * (1 - t * t) / 2 * (static_cast<T>(root_two_over_pi) * (1 + 3 * static_cast<T>(cubic) * (x * x)));
}

}  // namespace

template <class T>
const Tensor<T>& Gelu<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  x_ = &x;
  y_.resize(x.extents());
  const T* const from = x.values().data();
  if (form_ == GeluForm::erf)
    for_elements(y_.values(), 40, [=](std::size_t i) { return from[i] * smooth_normal_cdf(from[i]); });
  else
    for_elements(y_.values(), 40, [=](std::size_t i) { return from[i] / 2 * (1 + smooth_tanh(inside_tanh(from[i]))); });
  pass.numerics.cast({OperatorKind::gelu, this->name()}, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Gelu<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  dx_.resize(dy.extents());
  const T* const from = x_->values().data();
  const T* const d = dy.values().data();
  if (form_ == GeluForm::erf)
    for_elements(dx_.values(), 40, [=](std::size_t i) {
      return d[i] * (smooth_normal_cdf(from[i]) + from[i] * smooth_normal_density(from[i]));
    });
  else for_elements(dx_.values(), 40, [=](std::size_t i) { return d[i] * tanh_slope(from[i]); });
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
