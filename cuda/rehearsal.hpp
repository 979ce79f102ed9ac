// A GPU of host memory: kernels are loops, and a function answers for every element-wise instruction.
#pragma once

#include <halfulp/cuda/kernels.hpp>

#include <functional>
#include <memory>

namespace halfulp::cuda {

/// What an instruction gives of code words.
using Answer =
    std::function<std::uint64_t(const Instruction& instruction, std::uint64_t a, std::uint64_t b, std::uint64_t c)>;

/// The emulation, under the NaN rule that the row states.
std::uint64_t emulated_answer(const Instruction& instruction, std::uint64_t a, std::uint64_t b, std::uint64_t c);

struct Rehearsal {
  Answer answer = emulated_answer;
  int sm = 90;                                ///< the architecture it plays
  std::size_t memory = std::size_t{1} << 32;  ///< bytes that can be allocated; more is refused as a device refuses it
  std::size_t leaves_out = 0;                 ///< every so many results of a kernel are not written; 0: none
  bool reverses = false;                      ///< sums take the terms of a row from the last one on
  int failing_wait = 0;                       ///< the number of the wait() that throws, from 1 on; 0: none
};

/// A device for tests: with wrong answers, another architecture, little memory, a failure.
std::unique_ptr<Gpu> make_rehearsal(Rehearsal rehearsal);

}  // namespace halfulp::cuda
