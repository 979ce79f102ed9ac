#include <halfulp/experiments/training/layers/attention.hpp>

#include <halfulp/experiments/training/layers/softmax.hpp>

#include <limits>

namespace halfulp::training {
namespace {

std::size_t checked_head_width(const std::string& name, const AttentionShape& s) {
  if (s.heads == 0 || s.width % s.heads != 0)
    throw std::invalid_argument(name + ": " + std::to_string(s.heads) + " heads do not divide a width of " + std::to_string(s.width));
  const std::size_t width = s.width / s.heads;
  if (s.positions == Positions::rope && width % 2 != 0)
    throw std::invalid_argument(name + ": heads of " + std::to_string(width) + " elements, " +
                                "expected an even number, since pairs turn");
  return width;
}

}  // namespace

template <class T>
Attention<T>::Attention(std::string name, const AttentionShape& shape)
    : Module<T>(std::move(name)), shape_(shape), head_width_(checked_head_width(this->name(), shape)),
      scale_(static_cast<T>(1 / std::sqrt(static_cast<double>(head_width_)))), scores_name_(this->parameter_name("scores")),
      softmax_name_(this->parameter_name("softmax")), values_name_(this->parameter_name("values")),
      position_name_(this->parameter_name("position")), qkv_(this->parameter_name("qkv"), shape.width, 3 * shape.width),
      out_(this->parameter_name("out"), shape.width, shape.width) {}

template <class T>
void Attention<T>::split(const Tensor<T>& rows, std::size_t offset, Tensor<T>& heads) const {
  heads.resize({batch_, shape_.heads, length_, head_width_});
  for_rows(batch_ * length_, shape_.width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r)
      for (std::size_t h = 0; h < shape_.heads; ++h) {
        const std::span<const T> from = rows.row(r).subspan(offset + h * head_width_, head_width_);
        std::copy(from.begin(), from.end(), heads.row((r / length_ * shape_.heads + h) * length_ + r % length_).begin());
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
      const T slope = shape_.positions == Positions::alibi ? static_cast<T>(alibi_slope(bh % shape_.heads, shape_.heads)) : T{0};
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
  // Masked places have P = 0, and so no gradient. The scale belongs to the scores.
  softmax_rows_backward<T>(pass, {OperatorKind::softmax, softmax_name_}, length_, weights_.values(), dweights_.values(),
      dweights_.values());
  for (T& d : dweights_.values()) d *= scale_;
  dq_.resize(q_.extents());
  pass.numerics.products(scores, Product::to_input, heads, operands(length_, head_width_, length_, dweights_, k_), dq_.values());
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
void Attention<T>::collect(std::vector<Parameter<T>*>& all) {
  qkv_.collect(all);
  out_.collect(all);
}

template class Attention<float>;
template class Attention<double>;

}  // namespace halfulp::training
