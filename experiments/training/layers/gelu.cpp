#include <halfulp/experiments/training/layers/gelu.hpp>

#include <halfulp/experiments/data/smooth_functions.hpp>

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
  return (1 + t) / 2 + x * (1 - t * t) / 2 * (static_cast<T>(root_two_over_pi) * (1 + 3 * static_cast<T>(cubic) * (x * x)));
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
    for_elements(dx_.values(), 40, [=](std::size_t i) { return d[i] * (smooth_normal_cdf(from[i]) + from[i] * smooth_normal_density(from[i])); });
  else
    for_elements(dx_.values(), 40, [=](std::size_t i) { return d[i] * tanh_slope(from[i]); });
  pass.numerics.cast({OperatorKind::gelu, this->name()}, Role::gradient_of_activation, dx_.values());
  return dx_;
}

template class Gelu<float>;
template class Gelu<double>;

}  // namespace halfulp::training
