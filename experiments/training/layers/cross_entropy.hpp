// Softmax and cross-entropy with class labels, as one operator.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// loss = mean over rows of -log softmax(logits)[label]: torch.nn.functional.cross_entropy, mean reduction.
/// logits: ... x classes; labels: one a row, in [0, classes).
/// log-probabilities are rounded as an activation, and so is the loss.
template <class T>
class CrossEntropy {
 public:
  explicit CrossEntropy(std::string name = "loss") : name_(std::move(name)) {}
  /// Throws std::invalid_argument if labels are not as many as rows, or name no class.
  T forward(Pass<T>& pass, const Tensor<T>& logits, std::span<const int> labels);
  /// The gradient by the logits, of a loss times `scale` (a loss scaler's, or 1): (softmax - one at the label) * (scale / rows).
  const Tensor<T>& backward(Pass<T>& pass, T scale = 1);
  /// Of the last forward: log softmax.
  const Tensor<T>& log_probabilities() const { return log_probabilities_; }

 private:
  std::string name_;
  std::vector<int> labels_;
  Tensor<T> log_probabilities_, losses_, gradient_;
};

extern template class CrossEntropy<float>;
extern template class CrossEntropy<double>;

}  // namespace halfulp::training
