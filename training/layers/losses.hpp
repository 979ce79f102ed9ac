// Softmax and cross-entropy with class labels, as one operator.
#pragma once

#include <halfulp/training/layers/module.hpp>

namespace halfulp::training {

/// loss = mean over rows of -log softmax(logits)[label]: torch.nn.functional.cross_entropy, mean reduction. logits: ...
/// x classes; labels: one per row, in [0, classes). Log-probabilities and the loss are rounded as activations.
template <class T>
class CrossEntropy {
 public:
  explicit CrossEntropy(std::string name = "loss") : name_(std::move(name)) {}
  /// Throws std::invalid_argument if there is not one label per row, or if a label names no class.
  T forward(Pass<T>& pass, const Tensor<T>& logits, std::span<const int> labels);
  /// The gradient of the loss times `scale` (the loss scaler's, or 1) by the logits: (softmax - one at the label) *
  /// (scale / rows).
  const Tensor<T>& backward(Pass<T>& pass, T scale = 1);
  /// The log softmax of the last forward.
  const Tensor<T>& log_probabilities() const { return log_probabilities_; }

 private:
  std::string name_;
  std::vector<int> labels_;
  Tensor<T> log_probabilities_, losses_, gradient_;
};

extern template class CrossEntropy<float>;
extern template class CrossEntropy<double>;

// Binary cross-entropy of probabilities, and of logits.

/// loss = mean of -(t ln p + (1 - t) ln(1 - p)) over all elements, as torch.nn.functional.binary_cross_entropy computes
/// it: no logarithm is below -100. Its gradient is (p - t) / max(p (1 - p), 1e-12) * scale / count. In a narrow format
/// p rounds to 0 and 1, which is why the version on logits exists.
template <class T>
class BinaryCrossEntropy {
 public:
  explicit BinaryCrossEntropy(std::string name = "loss") : name_(std::move(name)) {}
  /// Throws std::invalid_argument if p and t differ in shape, or if a p is outside [0, 1] (NaN passes).
  T forward(Pass<T>& pass, const Tensor<T>& p, const Tensor<T>& targets);
  /// The gradient of the loss times `scale` by p.
  const Tensor<T>& backward(Pass<T>& pass, T scale = 1);

 private:
  std::string name_;
  const Tensor<T>*p_ = nullptr, *targets_ = nullptr;
  Tensor<T> losses_, gradient_;
};

/// loss = mean of max(x, 0) - x t + ln(1 + e^-|x|), as torch.nn.functional.binary_cross_entropy_with_logits; gradient
/// (sigmoid(x) - t) * scale / count.
template <class T>
class BinaryCrossEntropyWithLogits {
 public:
  explicit BinaryCrossEntropyWithLogits(std::string name = "loss") : name_(std::move(name)) {}
  T forward(Pass<T>& pass, const Tensor<T>& logits, const Tensor<T>& targets);
  const Tensor<T>& backward(Pass<T>& pass, T scale = 1);

 private:
  std::string name_;
  const Tensor<T>*logits_ = nullptr, *targets_ = nullptr;
  Tensor<T> losses_, gradient_;
};

extern template class BinaryCrossEntropy<float>;
extern template class BinaryCrossEntropy<double>;
extern template class BinaryCrossEntropyWithLogits<float>;
extern template class BinaryCrossEntropyWithLogits<double>;

}  // namespace halfulp::training
