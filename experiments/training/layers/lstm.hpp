// Long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// One cell, over a sequence from a state of zeros. x: batch x length x inputs; y: batch x length x width, its states h.
/// Gates i, f, g, o, one after the other, as torch.nn.LSTM has them: a = W_ih x + b_ih and b = W_hh h + b_hh, each rounded as an
/// activation; i, f, o = sigmoid(a + b), g = tanh(a + b); c = f c + i g; h = o tanh(c); c and h are rounded as activations.
/// W_ih: 4 width x inputs, W_hh: 4 width x width, b_ih and b_hh: 4 width.
template <class T>
class Lstm : public Module<T> {
 public:
  Lstm(std::string name, std::size_t inputs, std::size_t width);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override;

 private:
  void step(Pass<T>& pass, const Site& site, std::size_t t);
  void step_backward(Pass<T>& pass, const Site& site, std::size_t t, const Tensor<T>& dy);

  std::size_t inputs_, width_, batch_ = 0, length_ = 0;
  Parameter<T> weight_ih_, weight_hh_, bias_ih_, bias_hh_;
  // Time comes first in all of these. States have one time more: the zeros before the first.
  Tensor<T> x_, gates_, hidden_, cells_, from_hidden_, dgates_, dhidden_, dcell_, dx_by_time_, y_, dx_;
};

extern template class Lstm<float>;
extern template class Lstm<double>;

}  // namespace halfulp::training
