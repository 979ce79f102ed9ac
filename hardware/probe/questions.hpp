// What the probe asks a matrix unit: the same operands for every device of a shape, whatever it has answered before, so that one
// launch, or a recording, answers everything.
#pragma once

#include <halfulp/hardware/matrix/device.hpp>

#include <array>
#include <string_view>
#include <vector>

namespace halfulp::probe {

/// What a question is for. The order is the one in which they are asked.
enum class Topic : std::uint8_t {
  special,    ///< NaN, Inf, overflow
  zero,       ///< signs of zeros
  subnormal,  ///< subnormal operands and results
  addend,     ///< C alone, every product 0: 1 + 2^-s and the like
  order,      ///< C = 1 + 2^-s, +1 at one place, -1 at another: which is added first, or are both added at once?
  cancel,     ///< two products that cancel, and a small third term
  pair,       ///< one product and C
  rounding,   ///< a large C and a product near its last place
  crowd,      ///< every product at work, exponents large enough that no e0 below 0 matters
  small,      ///< sums whose terms are all small
  scattered,  ///< random code words
};
inline constexpr std::array<std::string_view, 11> topic_names{"special",  "zero",  "subnormal", "addend",   "order", "cancel", "pair",
                                                               "rounding", "crowd", "small",     "scattered"};

struct Questions {
  MatrixCases cases;
  std::vector<Topic> topics;  ///< of each case
};

/// The questions for units of a shape: they depend on it alone. Some thousands of cases, k words each.
/// Precondition: formats with zero, k >= 1.
Questions ask(const MatrixShape& shape);

/// The same without their topics.
inline MatrixCases questions(const MatrixShape& shape) { return ask(shape).cases; }

}  // namespace halfulp::probe
