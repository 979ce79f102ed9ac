// Layer normalisation (Ba, Kiros and Hinton 2016).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// Over the last axis, of `width`: y = (x - mean) / sqrt(variance + eps) * gain + bias, the variance divided by width, as
/// torch.nn.LayerNorm.
/// With h = (x - mean) / s and g = dy gain: dx = (g - mean(g) - h mean(g h)) / s.
template <class T>
class LayerNorm : public Module<T> {
 public:
  LayerNorm(std::string name, std::size_t width, double eps = 1e-5);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override;

 private:
  Parameter<T> gain_, bias_;
  T eps_;
  Tensor<T> normal_, reciprocal_, y_, dx_, products_;  ///< h, 1 / s of each row
};

extern template class LayerNorm<float>;
extern template class LayerNorm<double>;

}  // namespace halfulp::training
