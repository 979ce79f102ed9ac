// Layers one after the other, and shapes between them.
#pragma once

#include <halfulp/experiments/training/module.hpp>

#include <memory>

namespace halfulp::training {

/// y = last(...second(first(x))). Parameters in the order of the layers.
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
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) dx = &(*layer)->backward(pass, *dx);
    return *dx;
  }
  void collect(std::vector<Parameter<T>*>& all) override {
    for (const auto& layer : layers_) layer->collect(all);
  }
  void collect_state(std::vector<State<T>*>& all) override {
    for (const auto& layer : layers_) layer->collect_state(all);
  }
  void without_input_gradient() override {
    if (!layers_.empty()) layers_.front()->without_input_gradient();
  }
  std::size_t size() const { return layers_.size(); }
  Module<T>& operator[](std::size_t i) { return *layers_[i]; }

 private:
  std::vector<std::unique_ptr<Module<T>>> layers_;
};

/// batch x ... to batch x all the rest: the same values as rows. Nothing is rounded.
template <class T>
class Flatten : public Module<T> {
 public:
  using Module<T>::Module;
  const Tensor<T>& forward(Pass<T>&, const Tensor<T>& x) override {
    from_ = x.extents();
    return reshaped(x, {x.extent(0), x.size() / x.extent(0)}, y_);
  }
  const Tensor<T>& backward(Pass<T>&, const Tensor<T>& dy) override { return reshaped(dy, from_, dx_); }

 private:
  static const Tensor<T>& reshaped(const Tensor<T>& x, const Extents& extents, Tensor<T>& y) {
    y.resize(extents);
    std::copy(x.values().begin(), x.values().end(), y.values().begin());
    return y;
  }
  Extents from_;
  Tensor<T> y_, dx_;
};

}  // namespace halfulp::training
