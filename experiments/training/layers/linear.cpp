#include <halfulp/experiments/training/layers/linear.hpp>

#include <halfulp/experiments/training/dense.hpp>

namespace halfulp::training {

template <class T>
Linear<T>::Linear(std::string name, std::size_t inputs, std::size_t outputs, bool bias)
    : Module<T>(std::move(name)),
      weight_(this->parameter_name("weight"), ParameterKind::weight, {outputs, inputs}, width_of(inputs)),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {bias ? outputs : 0}, width_of(inputs)), has_bias_(bias) {}

template <class T>
const Tensor<T>& Linear<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  if (x.columns() != weight_.value.extent(1)) this->refuse(x.extents(), "... x " + std::to_string(weight_.value.extent(1)));
  x_ = &x;
  y_.resize(x.extents().with_columns(weight_.value.extent(0)));
  dense_forward<T>(pass, {OperatorKind::linear, this->name()}, x.values(), weight_.value, bias_.value.values(), y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Linear<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::linear, this->name()};
  add_gradient(pass, site.kind, weight_, [&](std::span<T> dw) {
    dense_to_weight<T>(pass, site, dy.values(), x_->values(), weight_.value, dw);
  });
  if (has_bias_) add_bias_gradient(pass, site.kind, bias_, dy);
  if (!input_gradient_) return dx_;
  dx_.resize(x_->extents());
  dense_to_input<T>(pass, site, dy.values(), weight_.value, dx_.values());
  return dx_;
}

template <class T>
void Linear<T>::collect(std::vector<Parameter<T>*>& all) {
  all.push_back(&weight_);
  if (has_bias_) all.push_back(&bias_);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace halfulp::training
