// Steps that the normalisations of rows share.
#pragma once

#include <halfulp/training/layers/module.hpp>

namespace halfulp::training {

/// Rounds one intermediate number where the policy is strict about intermediates.
template <class T>
T rounded_inside(const Numerics<T>& numerics, const Site& site, T value) {
  numerics.inner(site, {&value, 1});
  return value;
}

/// 1 / sqrt(mean of squares + eps) of a row; `squares` is scratch memory of its size.
template <class T>
T reciprocal_root(const Numerics<T>& numerics, const Site& site, std::span<const T> row, std::span<T> squares, T eps) {
  for (std::size_t j = 0; j < row.size(); ++j) squares[j] = row[j] * row[j];
  numerics.inner(site, squares);
  const T mean = rounded_inside(numerics, site, numerics.sum(site, squares) / static_cast<T>(row.size()));
  return rounded_inside(numerics, site, 1 / std::sqrt(rounded_inside(numerics, site, mean + eps)));
}

/// dgain = sum over rows of dy h. `products` is scratch memory.
template <class T>
void add_gain_gradient(Pass<T>& pass, OperatorKind kind, TrainedParameter<T>& gain, const Tensor<T>& dy,
                       const Tensor<T>& h, Tensor<T>& products) {
  const Site site{kind, gain.name};
  products.resize(dy.extents());
  for_elements(products.values(), 1,
               [d = dy.values().data(), n = h.values().data()](std::size_t i) { return d[i] * n[i]; });
  pass.numerics.inner(site, products.values());
  add_bias_gradient(pass, kind, gain, products);
}

/// dx = (g - mean(g) - h mean(g h)) r for each row, with g = dy gain and r = 1 / s; without mean(g) where forward has
/// not subtracted the mean.
template <class T>
void norm_rows_backward(Pass<T>& pass, const Site& site, const Tensor<T>& dy, const Tensor<T>& normal,
                        const Tensor<T>& reciprocal, const Tensor<T>& gain, bool centred, Tensor<T>& dx) {
  const Numerics<T>& numerics = pass.numerics;
  const std::size_t width = gain.size();
  for_rows(dy.rows(), 8 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = dy.row(i), h = normal.row(i);
      const std::span<T> to = dx.row(i);
      for (std::size_t j = 0; j < width; ++j) to[j] = from[j] * gain[j] * h[j];
      numerics.inner(site, to);
      const T along = rounded_inside(numerics, site, numerics.sum(site, to) / static_cast<T>(width));
      for (std::size_t j = 0; j < width; ++j) to[j] = from[j] * gain[j];
      numerics.inner(site, to);
      const T mean = centred ? rounded_inside(numerics, site, numerics.sum(site, to) / static_cast<T>(width)) : T{0};
      for (std::size_t j = 0; j < width; ++j) to[j] = (to[j] - mean - h[j] * along) * reciprocal[i];
    }
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx.values());
}

// Layer normalisation (Ba, Kiros and Hinton 2016).

/// Normalises over the last axis, of `width`, as torch.nn.LayerNorm does: y = (x - mean) / sqrt(variance + eps) * gain
/// + bias, where the variance is divided by width. With h = (x - mean) / s and g = dy gain: dx = (g - mean(g) - h
/// mean(g h)) / s.
template <class T>
class LayerNorm : public Module<T> {
 public:
  LayerNorm(std::string name, std::size_t width, double eps = 1e-5);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;

 private:
  TrainedParameter<T> gain_, bias_;
  T eps_;
  Tensor<T> normal_, reciprocal_, y_, dx_, products_;  ///< normal_ is h, reciprocal_ is 1 / s of each row
};

extern template class LayerNorm<float>;
extern template class LayerNorm<double>;

// Root mean square normalisation (Zhang and Sennrich 2019).

/// Normalises over the last axis, of `width`, as torch.nn.RMSNorm does with that eps: y = x / sqrt(mean(x^2) + eps) *
/// gain.
template <class T>
class RmsNorm : public Module<T> {
 public:
  RmsNorm(std::string name, std::size_t width, double eps = 1e-6);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override { all.push_back(&gain_); }

 private:
  TrainedParameter<T> gain_;
  T eps_;
  Tensor<T> normal_, reciprocal_, y_, dx_, products_;
};

extern template class RmsNorm<float>;
extern template class RmsNorm<double>;

// Batch normalisation (Ioffe and Szegedy 2015).

/// x: batch x channels, or batch x channels x height x width. Normalises over all axes except the channels, as
/// torch.nn.BatchNorm1d and 2d do: y = (x - mean) / sqrt(variance + eps) * gain + bias. In training, mean and variance
/// are the batch's, with the variance divided by the count. The running values move towards them by `momentum`; for
/// these the variance is divided by count - 1. Outside training the running values serve, and the gradient treats them
/// as constants. Throws std::invalid_argument for other shapes, and in training for one value per channel.
template <class T>
class BatchNorm : public Module<T> {
 public:
  BatchNorm(std::string name, std::size_t channels, double eps = 1e-5, double momentum = 0.1);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;
  void collect_state(std::vector<ModuleState<T>*>& all) override;

 private:
  /// The batch's mean of a channel and 1 / s. In training this moves the running values.
  void measure(const Numerics<T>& numerics, const Site& site, const Tensor<T>& x, std::size_t channel);

  TrainedParameter<T> gain_, bias_;
  ModuleState<T> running_mean_, running_variance_;
  T eps_, momentum_;
  bool batch_ = true;  ///< whether the last forward took the batch's own mean
  Tensor<T> mean_, reciprocal_, normal_, y_, dx_, along_, sums_;
};

extern template class BatchNorm<float>;
extern template class BatchNorm<double>;

}  // namespace halfulp::training
