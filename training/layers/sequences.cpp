#include <halfulp/training/layers/sequences.hpp>

#include <halfulp/data/elementary.hpp>
#include <halfulp/training/layers/activations.hpp>
#include <halfulp/training/layers/module.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <bit>
#include <limits>

namespace halfulp::training {

template <class T>
void Rotation<T>::prepare(std::size_t length, std::size_t width, double base) {
  const std::size_t half = width / 2;
  if (cosines_.extents() == Extents{length, half}) return;
  cosines_.resize({length, half});
  sines_.resize({length, half});
  for (std::size_t p = 0; p < length; ++p)
    for (std::size_t i = 0; i < half; ++i) {
      const double turn = deterministic_exp2(deterministic_log2(base) * -2 * static_cast<double>(i) /
                                             static_cast<double>(width));
      const double angle = static_cast<double>(p) * turn;
      cosines_.row(p)[i] = static_cast<T>(cosine({angle, 0}));
      sines_.row(p)[i] = static_cast<T>(sine({angle, 0}));
    }
}

template <class T>
void Rotation<T>::turn(std::span<T> x, bool back) const {
  const std::size_t length = cosines_.extent(0), half = cosines_.extent(1);
  for_rows(x.size() / (2 * half), 4 * half, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::span<const T> c = cosines_.row(r % length), s = sines_.row(r % length);
      T *const first = x.data() + r * 2 * half, *const second = first + half;
      for (std::size_t i = 0; i < half; ++i) {
        const T a = first[i], b = second[i], sign = back ? -s[i] : s[i];
        first[i] = a * c[i] - b * sign;
        second[i] = b * c[i] + a * sign;
      }
    }
  });
}

double alibi_slope(std::size_t head, std::size_t heads) {
  const std::size_t below = std::bit_floor(heads);
  const double step = head < below ? static_cast<double>(head + 1) / static_cast<double>(below)
                                   : static_cast<double>(2 * (head - below) + 1) / static_cast<double>(2 * below);
  return deterministic_exp2(-8 * step);
}

template class Rotation<float>;
template class Rotation<double>;

namespace {

std::size_t checked_head_width(const std::string& name, const AttentionShape& s) {
  if (s.heads == 0 || s.width % s.heads != 0)
    throw std::invalid_argument(name + ": " + std::to_string(s.heads) + " heads do not divide a width of " +
                                std::to_string(s.width));
  const std::size_t width = s.width / s.heads;
  if (s.positions == Positions::rope && width % 2 != 0)
    throw std::invalid_argument(name + ": heads of " + std::to_string(width) + " elements, " +
                                "expected an even number, since pairs turn");
  return width;
}

}  // namespace

template <class T>
Attention<T>::Attention(std::string name, const AttentionShape& shape)
    : Module<T>(std::move(name)),
      shape_(shape),
      head_width_(checked_head_width(this->name(), shape)),
      scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(head_width_)))),
      scores_name_(this->parameter_name("scores")),
      softmax_name_(this->parameter_name("softmax")),
      values_name_(this->parameter_name("values")),
      position_name_(this->parameter_name("position")),
      qkv_(this->parameter_name("qkv"), shape.width, 3 * shape.width),
      out_(this->parameter_name("out"), shape.width, shape.width) {}

template <class T>
void Attention<T>::split(const Tensor<T>& rows, std::size_t offset, Tensor<T>& heads) const {
  heads.resize({batch_, shape_.heads, length_, head_width_});
  for_rows(batch_ * length_, shape_.width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t h = 0; h < shape_.heads; ++h) {
        const std::span<const T> from = rows.row(r).subspan(offset + h * head_width_, head_width_);
        std::copy(from.begin(), from.end(),
                  heads.row((r / length_ * shape_.heads + h) * length_ + r % length_).begin());
      }
  });
}

template <class T>
void Attention<T>::join(const Tensor<T>& heads, std::size_t offset, Tensor<T>& rows) const {
  for_rows(batch_ * length_, shape_.width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t h = 0; h < shape_.heads; ++h) {
        const std::span<const T> from = heads.row((r / length_ * shape_.heads + h) * length_ + r % length_);
        std::copy(from.begin(), from.end(), rows.row(r).subspan(offset + h * head_width_, head_width_).begin());
      }
  });
}

template <class T>
void Attention<T>::scale_and_mask(Tensor<T>& scores) const {
  for_rows(batch_ * shape_.heads, 2 * length_ * length_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t bh = begin; bh < end; ++bh) {
      const T slope = shape_.positions == Positions::alibi
                          ? static_cast<T>(alibi_slope(bh % shape_.heads, shape_.heads))
                          : T{0};
      for (std::size_t i = 0; i < length_; ++i) {
        const std::span<T> row = scores.row(bh * length_ + i);
        for (std::size_t j = 0; j < length_; ++j) {
          const T distance = static_cast<T>(i > j ? i - j : j - i);
          row[j] = shape_.causal && j > i ? -std::numeric_limits<T>::infinity() : row[j] * scale_ - slope * distance;
        }
      }
    }
  });
}

template <class T>
typename Numerics<T>::Operands Attention<T>::operands(std::size_t m, std::size_t n, std::size_t k, const Tensor<T>& a,
                                                      const Tensor<T>& b) const {
  typename Numerics<T>::Operands o;
  o.m = m, o.n = n, o.k = k;
  o.a = a.values(), o.b = b.values();
  return o;
}

template <class T>
const Tensor<T>& Attention<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  if (e.rank() != 3 || e[2] != shape_.width) this->refuse(e, "batch x length x " + std::to_string(shape_.width));
  batch_ = e[0];
  length_ = e[1];
  const std::size_t heads = batch_ * shape_.heads;
  const Tensor<T>& rows = qkv_.forward(pass, x);
  split(rows, 0, q_);
  split(rows, shape_.width, k_);
  split(rows, 2 * shape_.width, v_);
  if (shape_.positions == Positions::rope) {
    rotation_.prepare(length_, head_width_, shape_.rope_base);
    for (Tensor<T>* const t : {&q_, &k_}) {
      rotation_.turn(t->values(), false);
      pass.numerics.cast({OperatorKind::position, position_name_}, Role::activation, t->values());
    }
  }
  weights_.resize({batch_, shape_.heads, length_, length_});
  auto o = operands(length_, length_, head_width_, q_, k_);
  o.transpose_b = true;
  pass.numerics.products({OperatorKind::attention_scores, scores_name_}, Product::forward, heads, o, weights_.values());
  scale_and_mask(weights_);
  softmax_rows<T>(pass, {OperatorKind::softmax, softmax_name_}, length_, weights_.values());
  mixed_.resize(q_.extents());
  pass.numerics.products({OperatorKind::attention_values, values_name_}, Product::forward, heads,
                         operands(length_, head_width_, length_, weights_, v_), mixed_.values());
  joined_.resize(e);
  join(mixed_, 0, joined_);
  return out_.forward(pass, joined_);
}

template <class T>
const Tensor<T>& Attention<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const std::size_t heads = batch_ * shape_.heads;
  const Site scores{OperatorKind::attention_scores, scores_name_}, values{OperatorKind::attention_values, values_name_};
  split(out_.backward(pass, dy), 0, dmixed_);
  // dP = dy V^T, dV = P^T dy.
  dweights_.resize(weights_.extents());
  auto o = operands(length_, length_, head_width_, dmixed_, v_);
  o.transpose_b = true;
  pass.numerics.products(values, Product::to_input, heads, o, dweights_.values());
  dv_.resize(v_.extents());
  o = operands(length_, head_width_, length_, weights_, dmixed_);
  o.transpose_a = true;
  pass.numerics.products(values, Product::to_weight, heads, o, dv_.values());
  // Masked places have P = 0 and so no gradient. The scale is part of the scores' gradient.
  softmax_rows_backward<T>(pass, {OperatorKind::softmax, softmax_name_}, length_, weights_.values(), dweights_.values(),
                           dweights_.values());
  for (T& d : dweights_.values()) d *= scale_;
  dq_.resize(q_.extents());
  pass.numerics.products(scores, Product::to_input, heads, operands(length_, head_width_, length_, dweights_, k_),
                         dq_.values());
  dk_.resize(k_.extents());
  o = operands(length_, head_width_, length_, dweights_, q_);
  o.transpose_a = true;
  pass.numerics.products(scores, Product::to_weight, heads, o, dk_.values());
  if (shape_.positions == Positions::rope)
    for (Tensor<T>* const t : {&dq_, &dk_}) {
      rotation_.turn(t->values(), true);
      pass.numerics.cast({OperatorKind::position, position_name_}, Role::gradient_of_activation, t->values());
    }
  dqkv_.resize({batch_, length_, 3 * shape_.width});
  join(dq_, 0, dqkv_);
  join(dk_, shape_.width, dqkv_);
  join(dv_, 2 * shape_.width, dqkv_);
  return qkv_.backward(pass, dqkv_);
}

template <class T>
void Attention<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  qkv_.collect(all);
  out_.collect(all);
}

template class Attention<float>;
template class Attention<double>;

namespace {

/// to[j][i] = from[i][j] for rows: from batch first to time first, and back.
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
    : Module<T>(std::move(name)),
      inputs_(inputs),
      width_(width),
      weight_ih_(this->parameter_name("weight_ih"), ParameterKind::weight, {4 * width, inputs}, uniform_width(width)),
      weight_hh_(this->parameter_name("weight_hh"), ParameterKind::weight, {4 * width, width}, uniform_width(width)),
      bias_ih_(this->parameter_name("bias_ih"), ParameterKind::bias, {4 * width}, uniform_width(width)),
      bias_hh_(this->parameter_name("bias_hh"), ParameterKind::bias, {4 * width}, uniform_width(width)) {}

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
    for (std::size_t j = 0; j < width_; ++j)
      next_hidden[b * width_ + j] = out[j] * smooth_tanh(next_cells[b * width_ + j]);
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
  add_gradient(pass, site.kind, weight_ih_,
               [&](std::span<T> dw) { dense_to_weight<T>(pass, site, dgates, x_.values(), weight_ih_.value, dw); });
  add_gradient(pass, site.kind, weight_hh_,
               [&](std::span<T> dw) { dense_to_weight<T>(pass, site, dgates, before, weight_hh_.value, dw); });
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
        const T in = gates[j], forget = gates[width_ + j], candidate = gates[2 * width_ + j],
                out = gates[3 * width_ + j];
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
void Lstm<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  for (TrainedParameter<T>* const p : {&weight_ih_, &weight_hh_, &bias_ih_, &bias_hh_}) all.push_back(p);
}

template class Lstm<float>;
template class Lstm<double>;

}  // namespace halfulp::training
