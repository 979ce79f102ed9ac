// y = x W^T + b.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// x: ... x inputs, y: ... x outputs, W: outputs x inputs, b: outputs (as torch.nn.Linear has them). Without `bias` there is no b.
/// dx = dy W, dW = dy^T x, db = sum of dy over rows.
template <class T>
class Linear : public Module<T> {
 public:
  Linear(std::string name, std::size_t inputs, std::size_t outputs, bool bias = true);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override;
  void without_input_gradient() override { input_gradient_ = false; }

  Parameter<T>& weight() { return weight_; }
  Parameter<T>& bias() { return bias_; }

 private:
  Parameter<T> weight_, bias_;
  bool has_bias_, input_gradient_ = true;
  const Tensor<T>* x_ = nullptr;
  Tensor<T> y_, dx_;
};

extern template class Linear<float>;
extern template class Linear<double>;

}  // namespace halfulp::training
