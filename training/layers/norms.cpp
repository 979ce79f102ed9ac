#include <halfulp/training/layers/norms.hpp>

namespace halfulp::training {

template <class T>
LayerNorm<T>::LayerNorm(std::string name, std::size_t width, double eps)
    : Module<T>(std::move(name)),
      gain_(this->parameter_name("gain"), ParameterKind::gain, {width}),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {width}),
      eps_(static_cast<T>(eps)) {}

template <class T>
const Tensor<T>& LayerNorm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t width = gain_.value.size(), rows = x.rows();
  if (x.columns() != width) this->refuse(x.extents(), "... x " + std::to_string(width));
  const Site site{OperatorKind::layer_norm, this->name()};
  const Numerics<T>& numerics = pass.numerics;
  normal_.resize(x.extents());
  y_.resize(x.extents());
  reciprocal_.resize({rows});
  for_rows(rows, 8 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = x.row(i);
      const std::span<T> h = normal_.row(i), y = y_.row(i);
      const T mean = rounded_inside(numerics, site, numerics.sum(site, from) / static_cast<T>(width));
      for (std::size_t j = 0; j < width; ++j) h[j] = from[j] - mean;
      numerics.inner(site, h);
      reciprocal_[i] = reciprocal_root<T>(numerics, site, h, y, eps_);
      for (T& v : h) v *= reciprocal_[i];
      numerics.inner(site, h);
      for (std::size_t j = 0; j < width; ++j) y[j] = h[j] * gain_.value[j] + bias_.value[j];
    }
  });
  pass.numerics.cast(site, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& LayerNorm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::layer_norm, this->name()};
  add_gain_gradient(pass, site.kind, gain_, dy, normal_, products_);
  add_bias_gradient(pass, site.kind, bias_, dy);
  dx_.resize(dy.extents());
  norm_rows_backward(pass, site, dy, normal_, reciprocal_, gain_.value, true, dx_);
  return dx_;
}

template <class T>
void LayerNorm<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  all.push_back(&gain_);
  all.push_back(&bias_);
}

template class LayerNorm<float>;
template class LayerNorm<double>;

template <class T>
RmsNorm<T>::RmsNorm(std::string name, std::size_t width, double eps)
    : Module<T>(std::move(name)),
      gain_(this->parameter_name("gain"), ParameterKind::gain, {width}),
      eps_(static_cast<T>(eps)) {}

template <class T>
const Tensor<T>& RmsNorm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t width = gain_.value.size(), rows = x.rows();
  if (x.columns() != width) this->refuse(x.extents(), "... x " + std::to_string(width));
  const Site site{OperatorKind::rms_norm, this->name()};
  normal_.resize(x.extents());
  y_.resize(x.extents());
  reciprocal_.resize({rows});
  for_rows(rows, 6 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = x.row(i);
      const std::span<T> h = normal_.row(i), y = y_.row(i);
      reciprocal_[i] = reciprocal_root<T>(std::as_const(pass.numerics), site, from, y, eps_);
      for (std::size_t j = 0; j < width; ++j) h[j] = from[j] * reciprocal_[i];
      pass.numerics.inner(site, h);
      for (std::size_t j = 0; j < width; ++j) y[j] = h[j] * gain_.value[j];
    }
  });
  pass.numerics.cast(site, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& RmsNorm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::rms_norm, this->name()};
  add_gain_gradient(pass, site.kind, gain_, dy, normal_, products_);
  dx_.resize(dy.extents());
  norm_rows_backward(pass, site, dy, normal_, reciprocal_, gain_.value, false, dx_);
  return dx_;
}

template class RmsNorm<float>;
template class RmsNorm<double>;

namespace {

/// The places of a channel's values: one run of `plane` values per sample.
struct Channels {
  std::size_t samples, channels, plane;
  explicit Channels(const Extents& x) : samples(x[0]), channels(x[1]), plane(x.size() / (x[0] * x[1])) {}
  std::size_t count() const { return samples * plane; }
  /// Calls f(index of the first value) for every sample, in order.
  template <class F>
  void each_run(std::size_t channel, F&& f) const {
    for (std::size_t n = 0; n < samples; ++n) f((n * channels + channel) * plane);
  }
};

/// The sum of term(i) over a channel: each run is summed in the fixed order, then the runs' sums are added in turn.
template <class T, class Term>
T channel_sum(const Channels& at, std::size_t channel, Term&& term) {
  T sum = 0;
  at.each_run(channel, [&](std::size_t first) {
    sum += fixed_order_sum<T>(at.plane, [&](std::size_t i) { return term(first + i); });
  });
  return sum;
}

}  // namespace

template <class T>
BatchNorm<T>::BatchNorm(std::string name, std::size_t channels, double eps, double momentum)
    : Module<T>(std::move(name)),
      gain_(this->parameter_name("gain"), ParameterKind::gain, {channels}),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {channels}),
      running_mean_{this->parameter_name("running_mean"), Tensor<T>({channels})},
      running_variance_{this->parameter_name("running_variance"), Tensor<T>({channels})},
      eps_(static_cast<T>(eps)),
      momentum_(static_cast<T>(momentum)),
      mean_({channels}),
      reciprocal_({channels}),
      along_({channels}),
      sums_({channels}) {
  for (T& v : running_variance_.value.values()) v = 1;
}

template <class T>
void BatchNorm<T>::measure(const Numerics<T>& numerics, const Site& site, const Tensor<T>& x, std::size_t c) {
  const Channels at(x.extents());
  const T* const from = x.values().data();
  const T count = static_cast<T>(at.count());
  const T mean = rounded_inside(numerics, site, channel_sum<T>(at, c, [&](std::size_t i) { return from[i]; }) / count);
  const T squares = channel_sum<T>(at, c, [&](std::size_t i) { return (from[i] - mean) * (from[i] - mean); });
  const T variance = rounded_inside(numerics, site, squares / count);
  mean_[c] = mean;
  reciprocal_[c] = rounded_inside(numerics, site, 1 / std::sqrt(variance + eps_));
  T &running_mean = running_mean_.value[c], &running_variance = running_variance_.value[c];
  running_mean = (1 - momentum_) * running_mean + momentum_ * mean;
  running_variance = (1 - momentum_) * running_variance + momentum_ * (squares / (count - 1));
}

template <class T>
const Tensor<T>& BatchNorm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const std::size_t channels = gain_.value.size(), rank = x.extents().rank();
  if ((rank != 2 && rank != 4) || x.extent(1) != channels || x.empty())
    this->refuse(x.extents(), "batch x " + std::to_string(channels) + " or batch x " + std::to_string(channels) +
                                  " x height x width");
  const Channels at(x.extents());
  batch_ = pass.training;
  if (batch_ && at.count() < 2) this->refuse(x.extents(), "more than one value a channel in training");
  const Site site{OperatorKind::batch_norm, this->name()};
  const Numerics<T>& numerics = pass.numerics;
  normal_.resize(x.extents());
  y_.resize(x.extents());
  const T* const from = x.values().data();
  T *const h = normal_.values().data(), *const y = y_.values().data();
  for_rows(channels, 8 * at.count(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      if (batch_) {
        measure(numerics, site, x, c);
      } else {
        mean_[c] = running_mean_.value[c];
        reciprocal_[c] = rounded_inside(numerics, site, 1 / std::sqrt(running_variance_.value[c] + eps_));
      }
      const T mean = mean_[c], r = reciprocal_[c], gain = gain_.value[c], bias = bias_.value[c];
      at.each_run(c, [&](std::size_t first) {
        for (std::size_t i = first; i < first + at.plane; ++i) {
          h[i] = (from[i] - mean) * r;
          y[i] = h[i] * gain + bias;
        }
      });
    }
  });
  pass.numerics.cast(site, Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& BatchNorm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::batch_norm, this->name()};
  const Numerics<T>& numerics = pass.numerics;
  const Channels at(dy.extents());
  const T count = static_cast<T>(at.count());
  dx_.resize(dy.extents());
  const T *const d = dy.values().data(), *const h = normal_.values().data();
  T* const to = dx_.values().data();
  for_rows(at.channels, 8 * at.count(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t c = begin; c < end; ++c) {
      sums_[c] = channel_sum<T>(at, c, [&](std::size_t i) { return d[i]; });
      along_[c] = channel_sum<T>(at, c, [&](std::size_t i) { return d[i] * h[i]; });
      const T mean = batch_ ? rounded_inside(numerics, site, sums_[c] / count) : T{0};
      const T along = batch_ ? rounded_inside(numerics, site, along_[c] / count) : T{0};
      const T factor = gain_.value[c] * reciprocal_[c];
      at.each_run(c, [&](std::size_t first) {
        for (std::size_t i = first; i < first + at.plane; ++i) to[i] = (d[i] - mean - h[i] * along) * factor;
      });
    }
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx_.values());
  const auto add = [&](TrainedParameter<T>& p, const Tensor<T>& gradient) {
    add_gradient(pass, site.kind, p, [&](std::span<T> values) {
      std::copy(gradient.values().begin(), gradient.values().end(), values.begin());
      pass.numerics.cast({site.kind, p.name}, Role::gradient_of_weight, values);
    });
  };
  add(gain_, along_);
  add(bias_, sums_);
  return dx_;
}

template <class T>
void BatchNorm<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  all.push_back(&gain_);
  all.push_back(&bias_);
}

template <class T>
void BatchNorm<T>::collect_state(std::vector<ModuleState<T>*>& all) {
  all.push_back(&running_mean_);
  all.push_back(&running_variance_);
}

template class BatchNorm<float>;
template class BatchNorm<double>;

}  // namespace halfulp::training
