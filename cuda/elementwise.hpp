// The table of device instructions: which task each computes, and how to launch it.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <functional>
#include <string>
#include <vector>

namespace halfulp::cuda {

/// Device pointers to code words; those an operation does not take are null. All have `count` elements.
struct DeviceOperands {
  const std::uint64_t* a = nullptr;
  const std::uint64_t* b = nullptr;
  const std::uint64_t* c = nullptr;
  std::uint64_t* results = nullptr;
  std::size_t count = 0;
};

/// One instruction: a task with the one mode and the one overflow rule that it implements.
struct Instruction {
  Operation operation;
  FloatFormat from, to;
  RoundingMode mode;
  Overflow overflow;
  NanRule nan;
  bool exact;  ///< rounds nothing (a widening conversion): `mode` and `overflow` do not matter
  std::string route;
  std::function<void(const DeviceOperands&)> launch;  ///< asynchronous; the caller checks for errors
};

/// Every instruction of this backend. Making the table calls nothing of CUDA.
std::vector<Instruction> instructions();

}  // namespace halfulp::cuda
