#include <halfulp/training/layers/losses.hpp>

#include <halfulp/data/elementary.hpp>
#include <halfulp/training/layers/activations.hpp>

namespace halfulp::training {

template <class T>
T CrossEntropy<T>::forward(Pass<T>& pass, const Tensor<T>& logits, std::span<const int> labels) {
  const std::size_t rows = logits.rows(), classes = logits.columns();
  if (labels.size() != rows)
    throw std::invalid_argument(name_ + ": " + std::to_string(labels.size()) + " labels for " + std::to_string(rows) +
                                " rows of logits");
  for (const int label : labels)
    if (label < 0 || static_cast<std::size_t>(label) >= classes)
      throw std::invalid_argument(name_ + ": label " + std::to_string(label) + ", expected 0 to " +
                                  std::to_string(classes - 1));
  const Site site{OperatorKind::cross_entropy, name_};
  labels_.assign(labels.begin(), labels.end());
  log_probabilities_.resize(logits.extents());
  gradient_.resize(logits.extents());  // here scratch memory for the exponentials
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
      exponentials(log_probabilities_.row(i).data(), dx.data(), dx.size());
      dx[static_cast<std::size_t>(labels_[i])] -= 1;
      for (T& d : dx) d *= factor;
    }
  });
  pass.numerics.cast({OperatorKind::cross_entropy, name_}, Role::gradient_of_activation, gradient_.values());
  return gradient_;
}

template class CrossEntropy<float>;
template class CrossEntropy<double>;

namespace {

void expect_same(const std::string& name, const Extents& x, const Extents& targets) {
  if (!(x == targets))
    throw std::invalid_argument(name + ": targets of shape " + text_of(targets) + ", expected " + text_of(x));
}

template <class T>
T mean_of(Pass<T>& pass, const Site& site, Tensor<T>& losses) {
  pass.numerics.cast(site, Role::activation, losses.values());
  T loss[] = {pass.numerics.sum(site, losses.values()) / static_cast<T>(losses.size())};
  pass.numerics.cast(site, Role::activation, loss);
  return loss[0];
}

}  // namespace

template <class T>
T BinaryCrossEntropy<T>::forward(Pass<T>& pass, const Tensor<T>& p, const Tensor<T>& targets) {
  expect_same(name_, p.extents(), targets.extents());
  p_ = &p;
  targets_ = &targets;
  losses_.resize(p.extents());
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < 0 || p[i] > 1)
      throw std::invalid_argument(name_ + ": probability " + std::to_string(p[i]) + ", expected 0 to 1");
    // std::max(NaN, -100) is NaN: std::max returns its first argument where the comparison is false.
    const T yes = std::max(smooth_log(p[i]), T{-100}), no = std::max(smooth_log1p(-p[i]), T{-100});
    losses_[i] = (targets[i] - 1) * no - targets[i] * yes;
  }
  return mean_of(pass, {OperatorKind::bce, name_}, losses_);
}

template <class T>
const Tensor<T>& BinaryCrossEntropy<T>::backward(Pass<T>& pass, T scale) {
  const Tensor<T>&p = *p_, &t = *targets_;
  const T factor = scale / static_cast<T>(p.size());
  gradient_.resize(p.extents());
  for (std::size_t i = 0; i < p.size(); ++i)
    gradient_[i] = factor * (p[i] - t[i]) / std::max((1 - p[i]) * p[i], static_cast<T>(1e-12));
  pass.numerics.cast({OperatorKind::bce, name_}, Role::gradient_of_activation, gradient_.values());
  return gradient_;
}

template <class T>
T BinaryCrossEntropyWithLogits<T>::forward(Pass<T>& pass, const Tensor<T>& logits, const Tensor<T>& targets) {
  expect_same(name_, logits.extents(), targets.extents());
  logits_ = &logits;
  targets_ = &targets;
  losses_.resize(logits.extents());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const T x = logits[i];
    losses_[i] = std::max(x, T{0}) - x * targets[i] + smooth_log1p(smooth_exp(-std::fabs(x)));
  }
  return mean_of(pass, {OperatorKind::bce_with_logits, name_}, losses_);
}

template <class T>
const Tensor<T>& BinaryCrossEntropyWithLogits<T>::backward(Pass<T>& pass, T scale) {
  const T factor = scale / static_cast<T>(logits_->size());
  gradient_.resize(logits_->extents());
  for (std::size_t i = 0; i < gradient_.size(); ++i)
    gradient_[i] = (smooth_sigmoid((*logits_)[i]) - (*targets_)[i]) * factor;
  pass.numerics.cast({OperatorKind::bce_with_logits, name_}, Role::gradient_of_activation, gradient_.values());
  return gradient_;
}

template class BinaryCrossEntropy<float>;
template class BinaryCrossEntropy<double>;
template class BinaryCrossEntropyWithLogits<float>;
template class BinaryCrossEntropyWithLogits<double>;

}  // namespace halfulp::training
