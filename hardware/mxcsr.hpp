// The control register of SSE and AVX arithmetic: rounding mode, subnormal rules, sticky flags.
//
// Compilers do not know that arithmetic depends on it. So every instruction whose result does is inline assembly
// marked volatile, as reading and writing the register is: volatile assembly keeps its order. Plain C++ arithmetic
// between them must be exact.
#pragma once

#if defined(__x86_64__)

#include <halfulp/emulation/rounding.hpp>

#include <cstdint>

namespace halfulp::x86 {

inline constexpr std::uint32_t mxcsr_inexact = 1U << 5;

inline std::uint32_t read_mxcsr() {
  std::uint32_t value;
  asm volatile("stmxcsr %0" : "=m"(value));
  return value;
}
inline void write_mxcsr(std::uint32_t value) { asm volatile("ldmxcsr %0" : : "m"(value)); }

/// The register's value for a rounding: all exceptions masked, no flag raised.
/// Precondition: one of the four modes that x86 has.
constexpr std::uint32_t mxcsr_for(RoundingMode mode, bool flush_inputs = false, bool flush_outputs = false) {
  std::uint32_t control = 0;
  switch (mode) {
    case RoundingMode::toward_negative: control = 1; break;
    case RoundingMode::toward_positive: control = 2; break;
    case RoundingMode::toward_zero: control = 3; break;
    default: break;
  }
  return 0x1f80U | control << 13 | (flush_inputs ? 0x40U : 0) | (flush_outputs ? 0x8000U : 0);
}

/// Sets the register for a scope and puts back what was there, flags included.
class ScopedMxcsr {
 public:
  explicit ScopedMxcsr(std::uint32_t value) : saved_(read_mxcsr()) { write_mxcsr(value); }
  ~ScopedMxcsr() { write_mxcsr(saved_); }
  ScopedMxcsr(const ScopedMxcsr&) = delete;
  ScopedMxcsr& operator=(const ScopedMxcsr&) = delete;

 private:
  std::uint32_t saved_;
};

}  // namespace halfulp::x86

#endif
