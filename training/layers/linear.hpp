// y = x W^T + b.
#pragma once

#include <halfulp/training/layers/module.hpp>

namespace halfulp::training {

/// x: ... x inputs, y: ... x outputs, W: outputs x inputs, b: outputs (as in torch.nn.Linear). Without `bias` there is
/// no b. dx = dy W, dW = dy^T x, db = sum of dy over rows.
template <class T>
class Linear : public Module<T> {
 public:
  Linear(std::string name, std::size_t inputs, std::size_t outputs, bool bias = true);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;
  void without_input_gradient() override { input_gradient_ = false; }

  TrainedParameter<T>& weight() { return weight_; }
  TrainedParameter<T>& bias() { return bias_; }

 private:
  TrainedParameter<T> weight_, bias_;
  bool has_bias_, input_gradient_ = true;
  const Tensor<T>* x_ = nullptr;
  Tensor<T> y_, dx_;
};

extern template class Linear<float>;
extern template class Linear<double>;

// Rows of a table by index.

/// x: up to three axes of indices (as numbers) below `rows`; y: the same axes and one more of `width`; table: rows x
/// width (torch.nn.Embedding). The gradient of a table's row is the sum of dy over the places that took it, in their
/// order. x has no gradient: backward returns an empty tensor.
template <class T>
class Embedding : public Module<T> {
 public:
  Embedding(std::string name, std::size_t rows, std::size_t width);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override { all.push_back(&table_); }

 private:
  TrainedParameter<T> table_;
  std::vector<std::size_t> indices_;
  Tensor<T> y_, none_;
};

extern template class Embedding<float>;
extern template class Embedding<double>;

}  // namespace halfulp::training
