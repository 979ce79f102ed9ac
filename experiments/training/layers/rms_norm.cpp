#include <halfulp/experiments/training/layers/rms_norm.hpp>

#include <halfulp/experiments/training/layers/norm_rows.hpp>

namespace halfulp::training {

template <class T>
RmsNorm<T>::RmsNorm(std::string name, std::size_t width, double eps)
    : Module<T>(std::move(name)), gain_(this->parameter_name("gain"), ParameterKind::gain, {width}), eps_(static_cast<T>(eps)) {}

template <class T>
const Tensor<T>& RmsNorm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t width = gain_.value.size(), rows = x.rows();
  if (x.columns() != width) this->refuse(x.extents(), "... x " + std::to_string(width));
  const Site site{OperatorKind::rms_norm, this->name()};
  normal_.resize(x.extents());
  y_.resize(x.extents());
  reciprocal_.resize({rows});
  for_rows(rows, 6 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = x.row(i);
      const std::span<T> h = normal_.row(i), y = y_.row(i);
      reciprocal_[i] = reciprocal_root<T>(std::as_const(pass.numerics), site, from, y, eps_);
      for (std::size_t j = 0; j < width; ++j) h[j] = from[j] * reciprocal_[i];
      pass.numerics.inner(site, h);
      for (std::size_t j = 0; j < width; ++j) y[j] = h[j] * gain_.value[j];
    }
  });
  pass.numerics.cast(site, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& RmsNorm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::rms_norm, this->name()};
  add_gain_gradient(pass, site.kind, gain_, dy, normal_, products_);
  dx_.resize(dy.extents());
  norm_rows_backward(pass, site, dy, normal_, reciprocal_, gain_.value, false, dx_);
  return dx_;
}

template class RmsNorm<float>;
template class RmsNorm<double>;

}  // namespace halfulp::training
