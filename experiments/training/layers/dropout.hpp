// Dropout (Srivastava et al. 2014), by counter-based random bits.
#pragma once

#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/training/module.hpp>
#include <halfulp/experiments/training/streams.hpp>

namespace halfulp::training {

/// In training each element is 0 with probability p, and x / (1 - p) otherwise, by the random bits of (seed, layer's name and
/// step, index) alone; else y = x. Any shape. Throws std::invalid_argument unless 0 <= p < 1.
template <class T>
class Dropout : public Module<T> {
 public:
  Dropout(std::string name, double p) : Module<T>(std::move(name)), p_(p) {
    if (!(p >= 0 && p < 1)) throw std::invalid_argument(this->name() + ": dropout " + std::to_string(p) + ", expected 0 <= p < 1");
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
    for_elements(dx_.values(), 1, [d = dy.values().data(), f = factors_.values().data()](std::size_t i) { return d[i] * f[i]; });
    pass.numerics.cast({OperatorKind::dropout, this->name()}, Role::gradient_of_activation, dx_.values());
    return dx_;
  }

 private:
  double p_;
  bool active_ = false;
  Tensor<T> y_, dx_, factors_;
};

}  // namespace halfulp::training
