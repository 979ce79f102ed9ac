// Layers one after the other, and other shapes of the same values.
#pragma once

#include <halfulp/training/layers/module.hpp>

#include <algorithm>
#include <memory>

namespace halfulp::training {

/// y = last(...second(first(x))). The parameters come in the order of the layers.
template <class T>
class Sequential : public Module<T> {
 public:
  using Module<T>::Module;
  /// Appends L(arguments...), and returns it.
  template <class L, class... Arguments>
  L& add(Arguments&&... arguments) {
    auto layer = std::make_unique<L>(std::forward<Arguments>(arguments)...);
    L& added = *layer;
    layers_.push_back(std::move(layer));
    return added;
  }
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override {
    const Tensor<T>* y = &x;
    for (const auto& layer : layers_) y = &layer->forward(pass, *y);
    return *y;
  }
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override {
    const Tensor<T>* dx = &dy;
    for (auto layer = layers_.rbegin(); layer != layers_.rend() && !dx->empty(); ++layer)
      dx = &(*layer)->backward(pass, *dx);
    return *dx;
  }
  void collect(std::vector<TrainedParameter<T>*>& all) override {
    for (const auto& layer : layers_) layer->collect(all);
  }
  void collect_state(std::vector<ModuleState<T>*>& all) override {
    for (const auto& layer : layers_) layer->collect_state(all);
  }
  /// Goes on to the first layer with parameters: the layers before it need not compute a gradient.
  void without_input_gradient() override {
    for (const auto& layer : layers_) {
      layer->without_input_gradient();
      if (!layer->parameters().empty()) return;
    }
  }
  std::size_t size() const { return layers_.size(); }
  Module<T>& operator[](std::size_t i) { return *layers_[i]; }

 private:
  std::vector<std::unique_ptr<Module<T>>> layers_;
};

/// Gives each sample of the batch new extents and keeps its values: {} makes each sample one row. Rounds nothing.
template <class T>
class Reshape : public Module<T> {
 public:
  explicit Reshape(std::string name, const Extents& sample = {}) : Module<T>(std::move(name)), sample_(sample) {}
  const Tensor<T>& forward(Pass<T>&, const Tensor<T>& x) override {
    from_ = x.extents();
    const std::size_t each = x.empty() ? 0 : x.size() / from_[0];
    if (each == 0 || (sample_.rank() > 0 && sample_.size() != each) || sample_.rank() > 3)
      this->refuse(from_, "batch x " + (sample_.rank() ? text_of(sample_) : "anything"));
    Extents to{from_[0]};
    for (std::size_t axis = 0; axis < sample_.rank(); ++axis) to = to.appended(sample_[axis]);
    return copied(x, sample_.rank() ? to : to.appended(each), y_);
  }
  const Tensor<T>& backward(Pass<T>&, const Tensor<T>& dy) override { return copied(dy, from_, dx_); }

 private:
  static const Tensor<T>& copied(const Tensor<T>& x, const Extents& extents, Tensor<T>& y) {
    y.resize(extents);
    std::copy(x.values().begin(), x.values().end(), y.values().begin());
    return y;
  }
  Extents sample_, from_;
  Tensor<T> y_, dx_;
};

// A connection around some layers (He et al. 2015).

/// y = x + f(x), where f is the layers added to `inside()`. x and f(x) have the same shape. dx = dy + df.
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
  void collect(std::vector<TrainedParameter<T>*>& all) override { inside_.collect(all); }
  void collect_state(std::vector<ModuleState<T>*>& all) override { inside_.collect_state(all); }

 private:
  void add(Pass<T>& pass, Role role, const Tensor<T>& a, const Tensor<T>& b, Tensor<T>& sum) {
    sum.resize(a.extents());
    for_elements(sum.values(), 1,
                 [x = a.values().data(), y = b.values().data()](std::size_t i) { return x[i] + y[i]; });
    pass.numerics.cast({OperatorKind::residual, this->name()}, role, sum.values());
  }
  Sequential<T> inside_;
  Tensor<T> y_, dx_;
};

}  // namespace halfulp::training
