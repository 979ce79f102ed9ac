// The arrays of a row: operands with fixed seeds, and room for results.
#pragma once

#include "row.hpp"

#include <array>
#include <functional>

namespace halfulp::bench {

/// Floats or code words, as the row says; 64-byte aligned.
struct Operands {
  std::array<const void*, 3> in{};
  void* out = nullptr;
  std::size_t count = 0;
};

/// What is timed.
using Run = std::function<void(const Operands&)>;

/// The operands of a row, in memory that the next row uses again: page faults are not timed. Arrays of more than a
/// million elements repeat the first million. Operands of square roots are positive.
Operands prepare(const Row& row);

/// How many results of `run` are not those of `wanted`, among the first million; any NaN equals any NaN.
std::size_t differing(const Row& row, const Operands& operands, const Run& run, const Run& wanted);

}  // namespace halfulp::bench
