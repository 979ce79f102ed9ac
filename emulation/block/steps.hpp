// The steps of many blocks at once: what block_step and affine_step say of each (tests hold them to it).
#pragma once

#include <halfulp/emulation/block/scale.hpp>

#include <span>
#include <vector>

namespace halfulp::block {

struct Steps {
  std::vector<std::uint32_t> scales;
  std::vector<float> factors, values;
  std::vector<int> zeros;  ///< of affine elements, else empty
  bool divides = false;    ///< all of them do, or none

  BlockStep operator[](std::size_t i) const {
    return {scales[i], zeros.empty() ? 0 : zeros[i], factors[i], divides, values[i]};
  }
};

/// From the bits of the blocks' largest magnitudes.
void find_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float tensor, Steps& steps);
/// From the blocks' extremes; where the magnitude is NaN, they are anything.
void find_affine_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, std::span<const float> low,
                       std::span<const float> high, Steps& steps);

}  // namespace halfulp::block
