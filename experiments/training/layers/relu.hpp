// max(x, 0).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// Any shape. NaN stays NaN; the gradient at 0 is 0, as torch's.
template <class T>
class Relu : public Module<T> {
 public:
  using Module<T>::Module;
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override {
    y_.resize(x.extents());
    for_elements(y_.values(), 1, [from = x.values().data()](std::size_t i) {
      const T v = from[i];
      return v <= 0 ? T{0} : v;
    });
    pass.numerics.cast({OperatorKind::relu, this->name()}, Role::activation, y_.values());
    return y_;
  }
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override {
    dx_.resize(dy.extents());
    for_elements(dx_.values(), 1, [y = y_.values().data(), d = dy.values().data()](std::size_t i) {
      const T v = d[i];
      return y[i] <= 0 ? T{0} : v;
    });
    pass.numerics.cast({OperatorKind::relu, this->name()}, Role::gradient_of_activation, dx_.values());
    return dx_;
  }

 private:
  Tensor<T> y_, dx_;
};

}  // namespace halfulp::training
