// A way around some layers (He et al. 2015).
#pragma once

#include <halfulp/experiments/training/layers/sequential.hpp>

namespace halfulp::training {

/// y = x + f(x), where f is the layers added to `inside()`; x and f(x) of one shape. dx = dy + df.
template <class T>
class Residual : public Module<T> {
 public:
  explicit Residual(std::string name) : Module<T>(name), inside_(std::move(name)) {}
  Sequential<T>& inside() { return inside_; }
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override {
    const Tensor<T>& f = inside_.forward(pass, x);
    if (!(f.extents() == x.extents())) this->refuse(x.extents(), text_of(f.extents()) + ", as the layers inside give");
    add(pass, Role::activation, x, f, y_);
    return y_;
  }
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override {
    add(pass, Role::gradient_of_activation, dy, inside_.backward(pass, dy), dx_);
    return dx_;
  }
  void collect(std::vector<Parameter<T>*>& all) override { inside_.collect(all); }
  void collect_state(std::vector<State<T>*>& all) override { inside_.collect_state(all); }

 private:
  void add(Pass<T>& pass, Role role, const Tensor<T>& a, const Tensor<T>& b, Tensor<T>& sum) {
    sum.resize(a.extents());
    for_elements(sum.values(), 1, [x = a.values().data(), y = b.values().data()](std::size_t i) { return x[i] + y[i]; });
    pass.numerics.cast({OperatorKind::residual, this->name()}, role, sum.values());
  }
  Sequential<T> inside_;
  Tensor<T> y_, dx_;
};

}  // namespace halfulp::training
