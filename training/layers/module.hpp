// A layer is a function of one tensor with parameters. It also takes the gradient back from its output to its input.
#pragma once

#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::training {

/// A parameter's role in its layer. Initialisation, weight decay and clipping tell these apart.
enum class ParameterKind : std::uint8_t { weight, bias, gain, table };

/// A tensor that optimizers change, with its gradient, to which backward passes add.
template <class T>
struct TrainedParameter {
  std::string name;
  ParameterKind kind;
  double default_width;  ///< PyTorch initialises the layer uniformly within this
  Tensor<T> value, gradient;
  bool has_gradient = false;    ///< whether a backward pass has given a gradient since forget_gradient
  Tensor<T> contribution = {};  ///< scratch memory of second and later contributions

  TrainedParameter(std::string its_name, ParameterKind its_kind, const Extents& extents, double width = 0)
      : name(std::move(its_name)), kind(its_kind), default_width(width), value(extents), gradient(extents) {}
  /// Call this before each step. The gradient then counts as 0, whatever its memory holds.
  void forget_gradient() { has_gradient = false; }
};

/// State that training changes besides the parameters: running means. Checkpoints need it.
template <class T>
struct ModuleState {
  std::string name;
  Tensor<T> value;
};

/// One pass through a network.
template <class T>
struct Pass {
  Numerics<T>& numerics;
  bool training = true;    ///< dropout drops, and batch norm takes the batch's own mean
  std::uint64_t seed = 0;  ///< for dropout, together with step
  std::uint64_t step = 0;
};

/// Layers own their outputs and overwrite them in the next pass. They keep a pointer to their input, which must not
/// change between forward and backward. Only the first pass with a shape allocates memory.
template <class T>
class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Throws std::invalid_argument if the layer does not take x's shape.
  virtual const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) = 0;
  /// dy is the gradient of the loss by the output of the last forward, and has its shape. Adds to the parameters'
  /// gradients and returns the gradient by the input (an empty tensor after without_input_gradient). Call backward once
  /// for each forward.
  virtual const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) = 0;

  /// Appends the parameters, always in the same order.
  virtual void collect(std::vector<TrainedParameter<T>*>&) {}
  virtual void collect_state(std::vector<ModuleState<T>*>&) {}
  /// Tells a network's first layer that nobody needs the gradient by its input. Layers that can save a product override
  /// this.
  virtual void without_input_gradient() {}

  const std::string& name() const { return name_; }
  std::vector<TrainedParameter<T>*> parameters() {
    std::vector<TrainedParameter<T>*> all;
    collect(all);
    return all;
  }
  std::vector<ModuleState<T>*> states() {
    std::vector<ModuleState<T>*> all;
    collect_state(all);
    return all;
  }

 protected:
  std::string parameter_name(std::string_view which) const {
    return name_.empty() ? std::string(which) : name_ + "." + std::string(which);
  }
  [[noreturn]] void refuse(const Extents& got, const std::string& wanted) const {
    throw std::invalid_argument(name_ + ": input of shape " + text_of(got) + ", expected " + wanted);
  }

 private:
  std::string name_;
};

/// The half-width of PyTorch's default initialisation, 1 / sqrt(fan in).
inline double uniform_width(std::size_t fan_in) { return 1 / std::sqrt(static_cast<double>(fan_in)); }

/// `write` fills a span, which is added to the gradient of p. The first contribution is written in place; each later
/// sum is rounded.
template <class T, class Write>
void add_gradient(Pass<T>& pass, OperatorKind kind, TrainedParameter<T>& p, Write&& write) {
  if (!p.has_gradient) {
    write(p.gradient.values());
    p.has_gradient = true;
    return;
  }
  p.contribution.resize(p.value.extents());
  write(p.contribution.values());
  for (std::size_t i = 0; i < p.gradient.size(); ++i) p.gradient[i] += p.contribution[i];
  pass.numerics.cast({kind, p.name}, Role::gradient_of_weight, p.gradient.values());
}

/// The gradient of a bias: the sum of dy over all but the last axis.
template <class T>
void add_bias_gradient(Pass<T>& pass, OperatorKind kind, TrainedParameter<T>& bias, const Tensor<T>& dy) {
  const Site site{kind, bias.name};
  add_gradient(pass, kind, bias, [&](std::span<T> to) {
    pass.numerics.column_sums(site, bias.value.size(), dy.values(), to);
    pass.numerics.cast(site, Role::gradient_of_weight, to);
  });
}

// The three products around a weight matrix. Linear layers, convolutions and LSTM cells share them.

/// y = x W^T + bias. x: rows x inputs, W: outputs x inputs (only its first axis and its size matter), y: rows x
/// outputs.
template <class T>
void dense_forward(Pass<T>& pass, const Site& site, std::span<const T> x, const Tensor<T>& weight,
                   std::span<const T> bias, std::span<T> y) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = x.size() / inputs, o.n = outputs, o.k = inputs;
  o.a = x, o.b = weight.values(), o.transpose_b = true;
  pass.numerics.product(site, Product::forward, o, bias, y);
}

/// dx = dy W.
template <class T>
void dense_to_input(Pass<T>& pass, const Site& site, std::span<const T> dy, const Tensor<T>& weight, std::span<T> dx) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = dy.size() / outputs, o.n = inputs, o.k = outputs;
  o.a = dy, o.b = weight.values();
  pass.numerics.product(site, Product::to_input, o, dx);
}

/// dw = dy^T x.
template <class T>
void dense_to_weight(Pass<T>& pass, const Site& site, std::span<const T> dy, std::span<const T> x,
                     const Tensor<T>& weight, std::span<T> dw) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = outputs, o.n = inputs, o.k = dy.size() / outputs;
  o.a = dy, o.transpose_a = true, o.b = x;
  pass.numerics.product(site, Product::to_weight, o, dw);
}

}  // namespace halfulp::training
