// The steps of many blocks at once: each equals block_step or affine_step of its block, and tests check that.
#pragma once

#include <halfulp/emulation/block/scale.hpp>

#include <span>
#include <vector>

namespace halfulp::block {

/// Steps by columns.
struct Steps {
  std::vector<std::uint32_t> scales;
  std::vector<float> factors, values;
  std::vector<int> zeros;  ///< of affine elements, else empty
  bool divides = false;    ///< of all

  BlockStep operator[](std::size_t i) const {
    return {scales[i], zeros.empty() ? 0 : zeros[i], factors[i], divides, values[i]};
  }
};

/// Finds the steps from the bits of the blocks' largest magnitudes.
void find_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float tensor, Steps& steps);
/// Finds the steps from the blocks' extremes, which are not used where the magnitude is NaN.
void find_affine_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, std::span<const float> low,
                       std::span<const float> high, Steps& steps);

}  // namespace halfulp::block
