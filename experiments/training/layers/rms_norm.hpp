// Root mean square normalisation (Zhang and Sennrich 2019).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// Over the last axis, of `width`: y = x / sqrt(mean(x^2) + eps) * gain, as torch.nn.RMSNorm with that eps.
template <class T>
class RmsNorm : public Module<T> {
 public:
  RmsNorm(std::string name, std::size_t width, double eps = 1e-6);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override { all.push_back(&gain_); }

 private:
  Parameter<T> gain_;
  T eps_;
  Tensor<T> normal_, reciprocal_, y_, dx_, products_;
};

extern template class RmsNorm<float>;
extern template class RmsNorm<double>;

}  // namespace halfulp::training
