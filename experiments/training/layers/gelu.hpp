// Gaussian error linear units (Hendrycks and Gimpel 2016).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

enum class GeluForm : std::uint8_t {
  erf,   ///< x P(X <= x), X standard normal
  tanh,  ///< x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as torch.nn.GELU(approximate="tanh")
};

/// Any shape.
template <class T>
class Gelu : public Module<T> {
 public:
  explicit Gelu(std::string name, GeluForm form = GeluForm::erf) : Module<T>(std::move(name)), form_(form) {}
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;

 private:
  GeluForm form_;
  const Tensor<T>* x_ = nullptr;
  Tensor<T> y_, dx_;
};

extern template class Gelu<float>;
extern template class Gelu<double>;

}  // namespace halfulp::training
