// max(x, 0).
#pragma once

#include <halfulp/emulation/random.hpp>
#include <halfulp/training/layers/curves.hpp>
#include <halfulp/training/layers/initialisation.hpp>
#include <halfulp/training/layers/module.hpp>

#include <limits>

namespace halfulp::training {

/// Takes any shape. NaN stays NaN. The gradient at 0 is 0, as in torch.
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

extern template class Relu<float>;
extern template class Relu<double>;

/// Gaussian error linear units. Any shape.
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

// Softmax over rows.

template <class T>
struct RowSoftmax {
  T largest, sum;
};

/// e^(x - largest x) for a row, and the sum of these. A row of only -Inf has largest 0 and sum 0.
template <class T>
RowSoftmax<T> exponentials_of_row(const Numerics<T>& numerics, const Site& site, std::span<const T> x,
                                  std::span<T> exponentials) {
  T largest = -std::numeric_limits<T>::infinity();
  for (const T v : x) largest = v > largest || v != v ? v : largest;  // passes NaN on
  if (largest == -std::numeric_limits<T>::infinity()) largest = 0;
  for (std::size_t j = 0; j < x.size(); ++j) exponentials[j] = x[j] - largest;
  numerics.inner(site, exponentials);
  training::exponentials(exponentials.data(), exponentials.data(), exponentials.size());
  numerics.inner(site, exponentials);
  return {largest, numerics.sum(site, exponentials)};
}

/// y = e^x / sum of e^x over the last axis; dx = y (dy - sum of y dy).
template <class T>
class Softmax : public Module<T> {
 public:
  using Module<T>::Module;
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;

 private:
  Tensor<T> y_, dx_;
};

/// The same in place, on rows of `columns` values. Attention uses it too.
template <class T>
void softmax_rows(Pass<T>& pass, const Site& site, std::size_t columns, std::span<T> x);
/// Computes dx from y and dy. dx may share dy's memory.
template <class T>
void softmax_rows_backward(Pass<T>& pass, const Site& site, std::size_t columns, std::span<const T> y,
                           std::span<const T> dy, std::span<T> dx);

extern template class Softmax<float>;
extern template class Softmax<double>;

// Dropout (Srivastava et al. 2014) with counter-based random bits.

/// In training, each element becomes 0 with probability p and x / (1 - p) otherwise. Only (seed, the layer's name and
/// step, index) choose the random bits. Outside training y = x. Takes any shape. Throws std::invalid_argument unless 0
/// <= p < 1.
template <class T>
class Dropout : public Module<T> {
 public:
  Dropout(std::string name, double p) : Module<T>(std::move(name)), p_(p) {
    if (!(p >= 0 && p < 1))
      throw std::invalid_argument(this->name() + ": dropout " + std::to_string(p) + ", expected 0 <= p < 1");
  }
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override {
    active_ = pass.training && p_ > 0;
    if (!active_) return x;
    y_.resize(x.extents());
    factors_.resize(x.extents());
    const std::uint64_t stream = stream_of(this->name(), pass.step);
    const auto dropped = static_cast<std::uint64_t>(p_ * 0x1p32);
    const T kept = static_cast<T>(1 / (1 - p_));
    for_rows((x.size() + 3) / 4, 100, [&](std::size_t begin, std::size_t end) {
      for (std::size_t block = begin; block < end; ++block) {
        const auto words = philox(pass.seed, stream, block);
        for (std::size_t i = 4 * block; i < std::min(4 * block + 4, x.size()); ++i) {
          factors_[i] = words[i % 4] < dropped ? T{0} : kept;
          y_[i] = x[i] * factors_[i];
        }
      }
    });
    pass.numerics.cast({OperatorKind::dropout, this->name()}, Role::activation, y_.values());
    return y_;
  }
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override {
    if (!active_) return dy;
    dx_.resize(dy.extents());
    for_elements(dx_.values(), 1,
                 [d = dy.values().data(), f = factors_.values().data()](std::size_t i) { return d[i] * f[i]; });
    pass.numerics.cast({OperatorKind::dropout, this->name()}, Role::gradient_of_activation, dx_.values());
    return dx_;
  }

 private:
  double p_;
  bool active_ = false;
  Tensor<T> y_, dx_, factors_;
};

extern template class Dropout<float>;
extern template class Dropout<double>;

}  // namespace halfulp::training
