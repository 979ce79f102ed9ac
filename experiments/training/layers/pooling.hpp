// Maxima and means of squares of an image.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

enum class Pooling : std::uint8_t { maximum, average };

/// x: batch x channels x height x width; y: the maximum or the mean of each square of `size`, whose corners are `stride` apart (0:
/// size), without padding, as torch.nn.MaxPool2d and AvgPool2d. The gradient of a maximum goes to the first place that has it; a
/// NaN is a maximum.
template <class T>
class Pool2d : public Module<T> {
 public:
  Pool2d(std::string name, Pooling pooling, std::size_t size, std::size_t stride = 0)
      : Module<T>(std::move(name)), pooling_(pooling), size_(size), stride_(stride ? stride : size) {}
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;

 private:
  Site site() const { return {pooling_ == Pooling::maximum ? OperatorKind::max_pool : OperatorKind::average_pool, this->name()}; }

  Pooling pooling_;
  std::size_t size_, stride_;
  Extents image_;
  std::vector<std::uint32_t> places_;  ///< of each maximum, in its plane
  Tensor<T> y_, dx_;
};

extern template class Pool2d<float>;
extern template class Pool2d<double>;

}  // namespace halfulp::training
