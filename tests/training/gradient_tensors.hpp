// Gradients of a few parameters for tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace check {

using Tensors = std::vector<std::vector<float>>;

inline std::vector<std::span<float>> spans(Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

/// The code word in hex. Every NaN becomes 7fc00000.
inline std::string to_word(float x) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", std::isnan(x) ? 0x7fc0'0000u : std::bit_cast<std::uint32_t>(x));
  return text;
}

}  // namespace check
