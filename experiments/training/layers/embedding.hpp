// Rows of a table by index.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// x: up to three axes of indices (as numbers) below `rows`; y: one axis more, of `width`; table: rows x width
/// (torch.nn.Embedding). The gradient of a row of the table is the sum of dy over the places that took it, in their order. There
/// is none by x: backward returns an empty tensor.
template <class T>
class Embedding : public Module<T> {
 public:
  Embedding(std::string name, std::size_t rows, std::size_t width);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override { all.push_back(&table_); }

 private:
  Parameter<T> table_;
  std::vector<std::size_t> indices_;
  Tensor<T> y_, none_;
};

extern template class Embedding<float>;
extern template class Embedding<double>;

}  // namespace halfulp::training
