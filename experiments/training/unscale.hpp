// Gradients times a factor, and which of them are Inf or NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace halfulp::training {

/// How many values are not finite, and where the first one is.
struct NonFiniteGradients {
  std::uint64_t infinite = 0, nan = 0;
  std::uint64_t tensor = 0, element = 0;  ///< of the first one
  std::uint64_t count() const { return infinite + nan; }
  /// Those of another tensor, which comes behind.
  void add(const NonFiniteGradients& other);
};

struct Unscaled {
  NonFiniteGradients before;    ///< among the values given
  NonFiniteGradients appeared;  ///< finite before, not finite times the factor
};

/// values *= factor in fp32, round to nearest even; NaN results are 0x7fc00000. `tensor` is the place that is reported.
Unscaled unscale_in_place(std::span<float> values, float factor, std::uint64_t tensor);

}  // namespace halfulp::training
