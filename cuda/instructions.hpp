// The element-wise instructions of NVIDIA GPUs: which task each computes. The rows are in instructions.def, which
// device code includes too.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <span>
#include <string_view>

namespace halfulp::cuda {

/// One instruction, or the short sequence of an intrinsic: a task with the one mode and the one overflow rule it
/// implements.
struct Instruction {
  Operation operation;
  NumberType from, to;
  RoundingMode mode;
  Overflow overflow;
  bool flush;  ///< .ftz: subnormal operands and results become zeros
  NanRule nan;
  bool approximate;  ///< the result need not be correctly rounded
  int sm;            ///< the first architecture that has it
  std::string_view route;

  /// Rounds nothing (a widening conversion, a comparison, a minimum): `mode` does not matter.
  bool exact() const;
  /// Whether it computes the task, whatever the device.
  bool computes(const Task& task) const;
  /// The task it computes.
  Task task() const;
};

std::span<const Instruction> instructions();

/// An architecture that has every row.
inline constexpr int newest_sm = 1000;

/// Whether device code has halfulp's own arithmetic to compare an instruction with: the operations that arrays have, on
/// formats of at most 16 bits, and conversions to these.
constexpr bool sweeps(Operation operation, const NumberType& from, const NumberType& to, bool flush) {
  const auto *f = std::get_if<FloatFormat>(&from), *t = std::get_if<FloatFormat>(&to);
  if (!f || !t || flush || t->storage_bits() > 16) return false;
  return operation == Operation::convert ? f->storage_bits() <= 32 : info(operation).arrays;
}
inline bool sweeps(const Instruction& x) { return sweeps(x.operation, x.from, x.to, x.flush); }

}  // namespace halfulp::cuda
