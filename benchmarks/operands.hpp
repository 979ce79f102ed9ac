// A row's arrays: operands with fixed seeds, and memory for results.
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

/// The timed function.
using Run = std::function<void(const Operands&)>;

/// A row's operands, in memory that the next row reuses, so that page faults are not timed. Arrays of more than a
/// million elements repeat the first million. Operands of square roots are positive.
Operands prepare(const Row& row);

/// The number of results of `run` that differ from `wanted`, among the first million. All NaNs are equal.
std::size_t differing(const Row& row, const Operands& operands, const Run& run, const Run& wanted);

}  // namespace halfulp::bench
