#include <halfulp/training/layers/linear.hpp>

#include <halfulp/training/layers/module.hpp>

namespace halfulp::training {

template <class T>
Linear<T>::Linear(std::string name, std::size_t inputs, std::size_t outputs, bool bias)
    : Module<T>(std::move(name)),
      weight_(this->parameter_name("weight"), ParameterKind::weight, {outputs, inputs}, uniform_width(inputs)),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {bias ? outputs : 0}, uniform_width(inputs)),
      has_bias_(bias) {}

template <class T>
const Tensor<T>& Linear<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  if (x.columns() != weight_.value.extent(1))
    this->refuse(x.extents(), "... x " + std::to_string(weight_.value.extent(1)));
  x_ = &x;
  y_.resize(x.extents().with_columns(weight_.value.extent(0)));
  dense_forward<T>(pass, {OperatorKind::linear, this->name()}, x.values(), weight_.value, bias_.value.values(),
                   y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Linear<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::linear, this->name()};
  add_gradient(pass, site.kind, weight_,
               [&](std::span<T> dw) { dense_to_weight<T>(pass, site, dy.values(), x_->values(), weight_.value, dw); });
  if (has_bias_) add_bias_gradient(pass, site.kind, bias_, dy);
  if (!input_gradient_) return dx_;
  dx_.resize(x_->extents());
  dense_to_input<T>(pass, site, dy.values(), weight_.value, dx_.values());
  return dx_;
}

template <class T>
void Linear<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  all.push_back(&weight_);
  if (has_bias_) all.push_back(&bias_);
}

template class Linear<float>;
template class Linear<double>;

template <class T>
Embedding<T>::Embedding(std::string name, std::size_t rows, std::size_t width)
    : Module<T>(std::move(name)), table_(this->parameter_name("table"), ParameterKind::table, {rows, width}) {}

template <class T>
const Tensor<T>& Embedding<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t rows = table_.value.extent(0), width = table_.value.extent(1);
  if (x.extents().rank() > 3 || x.empty()) this->refuse(x.extents(), "one to three axes of indices");
  indices_.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] >= 0 && x[i] < static_cast<T>(rows) && x[i] == std::floor(x[i])))
      throw std::invalid_argument(this->name() + ": index " + std::to_string(x[i]) + ", expected 0 to " +
                                  std::to_string(rows - 1));
    indices_[i] = static_cast<std::size_t>(x[i]);
  }
  y_.resize(x.extents().appended(width));
  for_rows(indices_.size(), width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> row = std::as_const(table_.value).row(indices_[i]);
      std::copy(row.begin(), row.end(), y_.row(i).begin());
    }
  });
  pass.numerics.cast({OperatorKind::embedding, this->name()}, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Embedding<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const std::size_t width = table_.value.extent(1);
  add_gradient(pass, OperatorKind::embedding, table_, [&](std::span<T> to) {
    std::fill(to.begin(), to.end(), T{0});
    for (std::size_t i = 0; i < indices_.size(); ++i)
      for (std::size_t j = 0; j < width; ++j) to[indices_[i] * width + j] += dy[i * width + j];
    pass.numerics.cast({OperatorKind::embedding, table_.name}, Role::gradient_of_weight, to);
  });
  return none_;
}

template class Embedding<float>;
template class Embedding<double>;

}  // namespace halfulp::training
