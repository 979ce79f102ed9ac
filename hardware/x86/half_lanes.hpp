// AVX512-FP16 on code words of 16 bits, 32 at a time (avx512.cpp).
#pragma once

#if defined(__x86_64__)

#include <halfulp/hardware/device.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace halfulp::x86 {

/// add, sub, mul, div, sqrt and fma of fp16.
class HalfLanes {
 public:
  using Word = std::uint16_t;
  /// The instruction of an operation, with its instruction set; empty if there is none.
  static std::string_view instruction(Operation operation);

  /// Precondition: avx512fp16_route() supports the task.
  explicit HalfLanes(const Task& task);

  /// results[i] = task on a[i], b[i] and c[i], of which those are empty that the operation does not take. A NaN is the
  /// instruction's own.
  void run(std::span<const Word> a, std::span<const Word> b, std::span<const Word> c, std::span<Word> results) const;

  /// One instruction on vectors of 32 words.
  using Vector = void (*)(const Word* a, const Word* b, const Word* c, Word* result);

 private:
  Vector vector_;
};

}  // namespace halfulp::x86

#endif
