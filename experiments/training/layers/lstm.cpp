#include <halfulp/experiments/training/layers/lstm.hpp>

#include <halfulp/experiments/data/smooth_functions.hpp>
#include <halfulp/experiments/training/dense.hpp>

namespace halfulp::training {
namespace {

/// to[j][i] = from[i][j], of rows: batch first to time first, and back.
template <class T>
void swap_rows(std::size_t first, std::size_t second, std::size_t columns, std::span<const T> from, std::span<T> to) {
  for (std::size_t i = 0; i < first; ++i)
    for (std::size_t j = 0; j < second; ++j) {
      const std::span<const T> row = from.subspan((i * second + j) * columns, columns);
      std::copy(row.begin(), row.end(), to.subspan((j * first + i) * columns, columns).begin());
    }
}

}  // namespace

template <class T>
Lstm<T>::Lstm(std::string name, std::size_t inputs, std::size_t width)
    : Module<T>(std::move(name)), inputs_(inputs), width_(width),
      weight_ih_(this->parameter_name("weight_ih"), ParameterKind::weight, {4 * width, inputs}, width_of(width)),
      weight_hh_(this->parameter_name("weight_hh"), ParameterKind::weight, {4 * width, width}, width_of(width)),
      bias_ih_(this->parameter_name("bias_ih"), ParameterKind::bias, {4 * width}, width_of(width)),
      bias_hh_(this->parameter_name("bias_hh"), ParameterKind::bias, {4 * width}, width_of(width)) {}

template <class T>
const Tensor<T>& Lstm<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  if (e.rank() != 3 || e[2] != inputs_) this->refuse(e, "batch x length x " + std::to_string(inputs_));
  batch_ = e[0];
  length_ = e[1];
  const Site site{OperatorKind::lstm_cell, this->name()};
  x_.resize({length_, batch_, inputs_});
  swap_rows<T>(batch_, length_, inputs_, x.values(), x_.values());
  gates_.resize({length_, batch_, 4 * width_});
  dense_forward<T>(pass, site, x_.values(), weight_ih_.value, bias_ih_.value.values(), gates_.values());
  for (Tensor<T>* const states : {&hidden_, &cells_}) {
    states->resize({length_ + 1, batch_, width_});
    std::fill_n(states->values().begin(), batch_ * width_, T{0});
  }
  from_hidden_.resize({batch_, 4 * width_});
  for (std::size_t t = 0; t < length_; ++t) step(pass, site, t);
  y_.resize({batch_, length_, width_});
  swap_rows<T>(length_, batch_, width_, std::as_const(hidden_).values().subspan(batch_ * width_), y_.values());
  return y_;
}

template <class T>
void Lstm<T>::step(Pass<T>& pass, const Site& site, std::size_t t) {
  const std::size_t states = batch_ * width_;
  const std::span<const T> hidden = hidden_.values().subspan(t * states, states);
  const std::span<const T> cells = cells_.values().subspan(t * states, states);
  const std::span<T> next_hidden = hidden_.values().subspan((t + 1) * states, states);
  const std::span<T> next_cells = cells_.values().subspan((t + 1) * states, states);
  dense_forward<T>(pass, site, hidden, weight_hh_.value, bias_hh_.value.values(), from_hidden_.values());
  for_rows(batch_, 100 * width_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      T* const gates = gates_.row(t * batch_ + b).data();
      const T* const more = from_hidden_.row(b).data();
      for (std::size_t j = 0; j < 4 * width_; ++j) gates[j] += more[j];
      for (std::size_t j = 0; j < 2 * width_; ++j) gates[j] = smooth_sigmoid(gates[j]);
      for (std::size_t j = 2 * width_; j < 3 * width_; ++j) gates[j] = smooth_tanh(gates[j]);
      for (std::size_t j = 3 * width_; j < 4 * width_; ++j) gates[j] = smooth_sigmoid(gates[j]);
      for (std::size_t j = 0; j < width_; ++j)
        next_cells[b * width_ + j] = gates[width_ + j] * cells[b * width_ + j] + gates[j] * gates[2 * width_ + j];
    }
  });
  pass.numerics.cast(site, Role::activation, next_cells);
  for (std::size_t b = 0; b < batch_; ++b) {
    const T* const out = gates_.row(t * batch_ + b).data() + 3 * width_;
    for (std::size_t j = 0; j < width_; ++j) next_hidden[b * width_ + j] = out[j] * smooth_tanh(next_cells[b * width_ + j]);
  }
  pass.numerics.cast(site, Role::activation, next_hidden);
}

template <class T>
const Tensor<T>& Lstm<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::lstm_cell, this->name()};
  dgates_.resize(gates_.extents());
  for (Tensor<T>* const d : {&dhidden_, &dcell_}) {
    d->resize({batch_, width_});
    std::fill(d->values().begin(), d->values().end(), T{0});
  }
  for (std::size_t t = length_; t-- > 0;) step_backward(pass, site, t, dy);
  const std::span<const T> before = std::as_const(hidden_).values().first(length_ * batch_ * width_);
  const std::span<const T> dgates = dgates_.values();
  add_gradient(pass, site.kind, weight_ih_, [&](std::span<T> dw) {
    dense_to_weight<T>(pass, site, dgates, x_.values(), weight_ih_.value, dw);
  });
  add_gradient(pass, site.kind, weight_hh_, [&](std::span<T> dw) {
    dense_to_weight<T>(pass, site, dgates, before, weight_hh_.value, dw);
  });
  add_bias_gradient(pass, site.kind, bias_ih_, dgates_);
  add_bias_gradient(pass, site.kind, bias_hh_, dgates_);
  dx_by_time_.resize(x_.extents());
  dense_to_input<T>(pass, site, dgates, weight_ih_.value, dx_by_time_.values());
  dx_.resize({batch_, length_, inputs_});
  swap_rows<T>(length_, batch_, inputs_, dx_by_time_.values(), dx_.values());
  return dx_;
}

template <class T>
void Lstm<T>::step_backward(Pass<T>& pass, const Site& site, std::size_t t, const Tensor<T>& dy) {
  const std::size_t states = batch_ * width_;
  const std::span<const T> cells = cells_.values().subspan(t * states, states),
      next_cells = cells_.values().subspan((t + 1) * states, states);
  for_rows(batch_, 100 * width_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const T* const gates = gates_.row(t * batch_ + b).data();
      T* const to = dgates_.row(t * batch_ + b).data();
      for (std::size_t j = 0; j < width_; ++j) {
        const T in = gates[j], forget = gates[width_ + j], candidate = gates[2 * width_ + j], out = gates[3 * width_ + j];
        const std::size_t at = b * width_ + j;
        const T dh = dhidden_[at] + dy[(b * length_ + t) * width_ + j], tanh = smooth_tanh(next_cells[at]);
        const T dc = dcell_[at] + dh * out * (1 - tanh * tanh);
        to[j] = dc * candidate * in * (1 - in);
        to[width_ + j] = dc * cells[at] * forget * (1 - forget);
        to[2 * width_ + j] = dc * in * (1 - candidate * candidate);
        to[3 * width_ + j] = dh * tanh * out * (1 - out);
        dcell_[at] = dc * forget;
      }
    }
  });
  const std::span<T> dgates = dgates_.values().subspan(t * batch_ * 4 * width_, batch_ * 4 * width_);
  pass.numerics.cast(site, Role::gradient_of_activation, dgates);
  pass.numerics.cast(site, Role::gradient_of_activation, dcell_.values());
  if (t > 0) dense_to_input<T>(pass, site, dgates, weight_hh_.value, dhidden_.values());
}

template <class T>
void Lstm<T>::collect(std::vector<Parameter<T>*>& all) {
  for (Parameter<T>* const p : {&weight_ih_, &weight_hh_, &bias_ih_, &bias_hh_}) all.push_back(p);
}

template class Lstm<float>;
template class Lstm<double>;

}  // namespace halfulp::training
