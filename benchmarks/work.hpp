// The work of a row: its operands with fixed seeds, room for results, and halfulp's own ways of doing it.
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

/// Prepares the operands of a row. The next row uses the same memory, so that page faults are not timed. Arrays of more
/// than a million elements repeat the first million. Operands of square roots are positive.
Operands prepare(const Row& row);

/// How many of the first million results of `run` differ from those of `wanted`; any NaN equals any NaN.
std::size_t differing(const Row& row, const Operands& operands, const Run& run, const Run& wanted);

/// A row by the array functions (emulation/array/array.hpp, emulation/block/block.hpp).
Run array_function(const Row& row);
/// A row by the scalar functions `convert` and `evaluate` in a loop.
Run scalar_function(const Row& row);

}  // namespace halfulp::bench
