// Batch normalisation (Ioffe and Szegedy 2015).
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// x: batch x channels, or batch x channels x height x width. Over all but the channels: y = (x - mean) / sqrt(variance + eps) *
/// gain + bias. In training mean and variance are the batch's, the variance divided by its count, and running means move by
/// `momentum` towards them (there the variance is divided by count - 1), as torch.nn.BatchNorm1d and 2d; otherwise they are the
/// running ones, and constants to the gradient.
/// Throws std::invalid_argument for other shapes, and for one value a channel in training.
template <class T>
class BatchNorm : public Module<T> {
 public:
  BatchNorm(std::string name, std::size_t channels, double eps = 1e-5, double momentum = 0.1);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override;
  void collect_state(std::vector<State<T>*>& all) override;

 private:
  /// The batch's mean of a channel and 1 / s; in training, the running ones move.
  void measure(const Numerics<T>& numerics, const Site& site, const Tensor<T>& x, std::size_t channel);

  Parameter<T> gain_, bias_;
  State<T> running_mean_, running_variance_;
  T eps_, momentum_;
  bool batch_ = true;  ///< whether the last forward took the batch's own mean
  Tensor<T> mean_, reciprocal_, normal_, y_, dx_, along_, sums_;
};

extern template class BatchNorm<float>;
extern template class BatchNorm<double>;

}  // namespace halfulp::training
