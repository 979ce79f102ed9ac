// Causal self-attention with several heads (Vaswani et al. 2017).
#pragma once

#include <halfulp/experiments/training/layers/linear.hpp>
#include <halfulp/experiments/training/layers/positions.hpp>

namespace halfulp::training {

struct AttentionShape {
  std::size_t width = 64, heads = 4;
  Positions positions = Positions::rope;
  bool causal = true;
  double rope_base = 10000;
};

/// x, y: batch x length x width. A linear layer "qkv" gives queries, keys and values, 3 width (heads one after the other in each);
/// each head has P = softmax(Q K^T / sqrt(width / heads) + what ALiBi adds), where later places are masked, and P V; a linear
/// layer "out" joins them. Precision is chosen for the products of scores, the softmax and the products of values apart (sites
/// "NAME.scores", ".softmax", ".values"), and for the turned queries and keys (".position").
template <class T>
class Attention : public Module<T> {
 public:
  /// Throws std::invalid_argument if the heads do not divide the width, or a head's width is odd where it turns.
  Attention(std::string name, const AttentionShape& shape);
  const Tensor<T>& forward(Pass<T>& pass, const Tensor<T>& x) override;
  const Tensor<T>& backward(Pass<T>& pass, const Tensor<T>& dy) override;
  void collect(std::vector<Parameter<T>*>& all) override;

 private:
  /// Heads apart, (batch, head, place, element), from rows of `stride` beginning at `offset`; and back.
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

}  // namespace halfulp::training
