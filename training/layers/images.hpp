// Two-dimensional convolution as a product with unfolded images.
#pragma once

#include <halfulp/training/layers/module.hpp>

namespace halfulp::training {

struct Conv2dShape {
  std::size_t inputs = 1, outputs = 1;  ///< channels
  std::size_t kernel = 3, stride = 1, padding = 0;
  /// Height or width of the result.
  std::size_t result(std::size_t extent) const { return (extent + 2 * padding - kernel) / stride + 1; }
};

/// x: batch x inputs x height x width, weight: outputs x inputs x kernel x kernel, bias: outputs; y: batch x outputs x
/// height' x width', the cross-correlation that torch.nn.Conv2d computes with zero padding. It uses the three products
/// of a linear layer. A row of their left operand holds what one place of the result sees, ordered (channel, row,
/// column).
template <class T>
class Conv2d : public Module<T> {
 public:
  Conv2d(std::string name, const Conv2dShape& shape, bool bias = true);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;
  void without_input_gradient() override { input_gradient_ = false; }

 private:
  /// The extents of a padded channel.
  std::size_t padded_height() const { return image_[2] + 2 * shape_.padding; }
  std::size_t padded_width() const { return image_[3] + 2 * shape_.padding; }
  /// Calls f(index of a row in the image, its index in padded_, width) for every row of every image, on all threads.
  template <class F>
  void each_row(F&& f);
  /// Calls f(index in padded_, index in unfolded_, kernel) for every row of the kernel at every place, on all threads.
  /// Calls that meet in one element of padded_ come in the order of the places.
  template <class F>
  void each_window(F&& f);

  Conv2dShape shape_;
  TrainedParameter<T> weight_, bias_;
  bool has_bias_, input_gradient_ = true;
  Extents image_;
  std::size_t height_ = 0, width_ = 0;  ///< of the result
  Tensor<T> padded_, unfolded_, rows_, y_, dx_;
};

extern template class Conv2d<float>;
extern template class Conv2d<double>;

// Maxima and means of squares of an image.

enum class Pooling : std::uint8_t { maximum, average };

/// x: batch x channels x height x width; y: the maximum or the mean of each square of `size`, as torch.nn.MaxPool2d and
/// AvgPool2d compute it without padding. The squares' corners are `stride` apart (0: size). The gradient of a maximum
/// goes to the first place that holds it. A NaN counts as the maximum.
template <class T>
class Pool2d : public Module<T> {
 public:
  Pool2d(std::string name, Pooling pooling, std::size_t size, std::size_t stride = 0)
      : Module<T>(std::move(name)), pooling_(pooling), size_(size), stride_(stride ? stride : size) {}
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;

 private:
  Site site() const {
    return {pooling_ == Pooling::maximum ? OperatorKind::max_pool : OperatorKind::average_pool, this->name()};
  }

  Pooling pooling_;
  std::size_t size_, stride_;
  Extents image_;
  std::vector<std::uint32_t> places_;  ///< of each maximum, in its plane
  Tensor<T> y_, dx_;
};

extern template class Pool2d<float>;
extern template class Pool2d<double>;

}  // namespace halfulp::training
