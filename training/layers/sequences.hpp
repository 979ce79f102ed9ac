// Positions in a sequence, by rotated pairs or by scores that fall with distance.
#pragma once

#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/module.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace halfulp::training {

enum class Positions : std::uint8_t { none, rope, alibi };

/// RoPE (Su et al. 2021): elements i and i + width / 2 of a vector at position p are rotated by the angle p base^(-2 i
/// / width). This is the pairing of GPT-NeoX and LLaMA; the paper pairs neighbours.
template <class T>
class Rotation {
 public:
  /// Makes the tables for positions below `length` unless they exist. `width` is even.
  void prepare(std::size_t length, std::size_t width, double base);
  /// Rotates each vector of `x`, in memory sequences x length x width. `back` rotates the other way, which is the
  /// gradient.
  void turn(std::span<T> x, bool back) const;

 private:
  Tensor<T> cosines_, sines_;  ///< length x width / 2
};

/// ALiBi (Press, Smith and Lewis 2021): the slope of head h of `heads`, by which scores fall with distance. It is 2^(-8
/// (h + 1) / heads) where heads is a power of two. Otherwise the slopes of the power of two below come first, then
/// every second slope of the power above.
double alibi_slope(std::size_t head, std::size_t heads);

extern template class Rotation<float>;
extern template class Rotation<double>;

// Causal self-attention with several heads (Vaswani et al. 2017).

struct AttentionShape {
  std::size_t width = 64, heads = 4;
  Positions positions = Positions::rope;
  bool causal = true;
  double rope_base = 10000;
};

/// x, y: batch x length x width. A linear layer "qkv" gives queries, keys and values, 3 width in all, with the heads in
/// order inside each. Each head computes P = softmax(Q K^T / sqrt(width / heads) + ALiBi's bias), where later places
/// are masked, and P V. A linear layer "out" joins the heads. The scores' products, the softmax and the values'
/// products each have a precision of their own (sites "NAME.scores", ".softmax", ".values"), and so do the rotated
/// queries and keys (".position").
template <class T>
class Attention : public Module<T> {
 public:
  /// Throws std::invalid_argument if the heads do not divide the width, or if RoPE meets an odd width of a head.
  Attention(std::string name, const AttentionShape& shape);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;

 private:
  /// Splits rows of `stride`, from `offset` on, into heads (batch, head, place, element); and joins them again.
  void split(const Tensor<T>& rows, std::size_t offset, Tensor<T>& heads) const;
  void join(const Tensor<T>& heads, std::size_t offset, Tensor<T>& rows) const;
  void scale_and_mask(Tensor<T>& scores) const;
  typename Numerics<T>::Operands operands(std::size_t m, std::size_t n, std::size_t k, const Tensor<T>& a,
                                          const Tensor<T>& b) const;

  AttentionShape shape_;
  std::size_t head_width_, batch_ = 0, length_ = 0;
  T scale_;
  std::string scores_name_, softmax_name_, values_name_, position_name_;
  Linear<T> qkv_, out_;
  Rotation<T> rotation_;
  Tensor<T> q_, k_, v_, weights_, mixed_, joined_, dq_, dk_, dv_, dweights_, dmixed_, dqkv_;
};

extern template class Attention<float>;
extern template class Attention<double>;

// Long short-term memory (Hochreiter and Schmidhuber 1997; with a forget gate, Gers et al. 2000).

/// One cell that runs over a sequence from a state of zeros. x: batch x length x inputs; y: batch x length x width, the
/// states h. The gates come in torch.nn.LSTM's order i, f, g, o: a = W_ih x + b_ih and b = W_hh h + b_hh, each rounded
/// as an activation; i, f, o = sigmoid(a + b), g = tanh(a + b); c = f c + i g; h = o tanh(c); c and h are rounded as
/// activations. W_ih: 4 width x inputs, W_hh: 4 width x width, b_ih and b_hh: 4 width.
template <class T>
class Lstm : public Module<T> {
 public:
  Lstm(std::string name, std::size_t inputs, std::size_t width);
  /// The states c after the last time, batch x width, of the last forward.
  std::span<const T> last_cells() const { return cells_.values().subspan(length_ * batch_ * width_, batch_ * width_); }
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<TrainedParameter<T>*>& all) override;

 private:
  void step(Pass<T>& pass, const Site& site, std::size_t t);
  void step_backward(Pass<T>& pass, const Site& site, std::size_t t, const Tensor<T>& dy);

  std::size_t inputs_, width_, batch_ = 0, length_ = 0;
  TrainedParameter<T> weight_ih_, weight_hh_, bias_ih_, bias_hh_;
  // Time is the first axis of all of these. States have one more time: the zeros before the first.
  Tensor<T> x_, gates_, hidden_, cells_, from_hidden_, dgates_, dhidden_, dcell_, dx_by_time_, y_, dx_;
};

extern template class Lstm<float>;
extern template class Lstm<double>;

}  // namespace halfulp::training
