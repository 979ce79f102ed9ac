#include <halfulp/experiments/training/layers/cross_entropy.hpp>

#include <halfulp/experiments/data/smooth_functions.hpp>
#include <halfulp/experiments/training/layers/softmax.hpp>

namespace halfulp::training {

template <class T>
T CrossEntropy<T>::forward(Pass<T>& pass, const Tensor<T>& logits, std::span<const int> labels) {
  const std::size_t rows = logits.rows(), classes = logits.columns();
  if (labels.size() != rows)
    throw std::invalid_argument(name_ + ": " + std::to_string(labels.size()) + " labels for " + std::to_string(rows) + " rows of logits");
  for (const int label : labels)
    if (label < 0 || static_cast<std::size_t>(label) >= classes)
      throw std::invalid_argument(name_ + ": label " + std::to_string(label) + ", expected 0 to " + std::to_string(classes - 1));
  const Site site{OperatorKind::cross_entropy, name_};
  labels_.assign(labels.begin(), labels.end());
  log_probabilities_.resize(logits.extents());
  gradient_.resize(logits.extents());  // scratch memory of the exponentials here
  for_rows(rows, 20 * classes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<T> exponentials = gradient_.row(i), y = log_probabilities_.row(i);
      const RowSoftmax<T> s = exponentials_of_row<T>(pass.numerics, site, logits.row(i), exponentials);
      T log_sum[] = {smooth_log(s.sum)};
      pass.numerics.inner(site, log_sum);
      for (std::size_t j = 0; j < classes; ++j) y[j] = logits.row(i)[j] - s.largest - log_sum[0];
    }
  });
  pass.numerics.cast(site, Role::activation, log_probabilities_.values());
  losses_.resize({rows});
  for (std::size_t i = 0; i < rows; ++i) losses_[i] = -log_probabilities_.row(i)[static_cast<std::size_t>(labels_[i])];
  T loss[] = {pass.numerics.sum(site, losses_.values()) / static_cast<T>(rows)};
  pass.numerics.cast(site, Role::activation, loss);
  return loss[0];
}

template <class T>
const Tensor<T>& CrossEntropy<T>::backward(Pass<T>& pass, T scale) {
  const std::size_t rows = log_probabilities_.rows(), classes = log_probabilities_.columns();
  const T factor = scale / static_cast<T>(rows);
  for_rows(rows, 20 * classes, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<T> dx = gradient_.row(i);
      smooth_exponentials<T>(log_probabilities_.row(i), dx);
      dx[static_cast<std::size_t>(labels_[i])] -= 1;
      for (T& d : dx) d *= factor;
    }
  });
  pass.numerics.cast({OperatorKind::cross_entropy, name_}, Role::gradient_of_activation, gradient_.values());
  return gradient_;
}

template class CrossEntropy<float>;
template class CrossEntropy<double>;

}  // namespace halfulp::training
