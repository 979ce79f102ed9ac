#include <halfulp/experiments/training/layers/layer_norm.hpp>

#include <halfulp/experiments/training/layers/norm_rows.hpp>

namespace halfulp::training {

template <class T>
LayerNorm<T>::LayerNorm(std::string name, std::size_t width, double eps)
    : Module<T>(std::move(name)), gain_(this->parameter_name("gain"), ParameterKind::gain, {width}),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {width}), eps_(static_cast<T>(eps)) {}

template <class T>
const Tensor<T>& LayerNorm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t width = gain_.value.size(), rows = x.rows();
  if (x.columns() != width) this->refuse(x.extents(), "... x " + std::to_string(width));
  const Site site{OperatorKind::layer_norm, this->name()};
  const Numerics<T>& numerics = pass.numerics;
  normal_.resize(x.extents());
  y_.resize(x.extents());
  reciprocal_.resize({rows});
  for_rows(rows, 8 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = x.row(i);
      const std::span<T> h = normal_.row(i), y = y_.row(i);
      const T mean = rounded_inside(numerics, site, numerics.sum(site, from) / static_cast<T>(width));
      for (std::size_t j = 0; j < width; ++j) h[j] = from[j] - mean;
      numerics.inner(site, h);
      reciprocal_[i] = reciprocal_root<T>(numerics, site, h, y, eps_);
      for (T& v : h) v *= reciprocal_[i];
      numerics.inner(site, h);
      for (std::size_t j = 0; j < width; ++j) y[j] = h[j] * gain_.value[j] + bias_.value[j];
    }
  });
  pass.numerics.cast(site, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& LayerNorm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::layer_norm, this->name()};
  add_gain_gradient(pass, site.kind, gain_, dy, normal_, products_);
  add_bias_gradient(pass, site.kind, bias_, dy);
  dx_.resize(dy.extents());
  norm_rows_backward(pass, site, dy, normal_, reciprocal_, gain_.value, true, dx_);
  return dx_;
}

template <class T>
void LayerNorm<T>::collect(std::vector<Parameter<T>*>& all) {
  all.push_back(&gain_);
  all.push_back(&bias_);
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace halfulp::training
