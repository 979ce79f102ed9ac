// Where in a sequence a vector stands: rotated pairs, or scores that fall with distance.
#pragma once

#include <halfulp/experiments/training/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace halfulp::training {

enum class Positions : std::uint8_t { none, rope, alibi };

/// RoPE (Su et al. 2021): elements i and i + width / 2 of a vector at position p turn by the angle p base^(-2 i / width) (the
/// pairing of GPT-NeoX and LLaMA; the paper's own takes neighbours).
template <class T>
class Rotation {
 public:
  /// Tables for positions below `length`; nothing if they are there. `width` is even.
  void prepare(std::size_t length, std::size_t width, double base);
  /// Turns each vector of `x`, sequences x length x width in memory; `back` turns the other way, which is the gradient.
  void turn(std::span<T> x, bool back) const;

 private:
  Tensor<T> cosines_, sines_;  ///< length x width / 2
};

/// ALiBi (Press, Smith and Lewis 2021): the slope of head h of `heads`, by which scores fall with distance: 2^(-8 (h + 1) / heads)
/// where heads is a power of two; otherwise those of the power below, then every second one of the power above.
double alibi_slope(std::size_t head, std::size_t heads);

extern template class Rotation<float>;
extern template class Rotation<double>;

}  // namespace halfulp::training
