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

// One function per instruction: scalar SSE and FMA arithmetic on float and double, under the current MXCSR (mxcsr.hpp).
//
// Of two NaN operands x86 returns the first; the destination register is the first operand, except of FMA.

#if defined(__x86_64__)

#include <bit>

namespace halfulp::x86 {

#define HALFULP_BINARY(name, mnemonic)                     \
  inline float name(float a, float b) {                    \
    asm volatile(mnemonic "ss %1, %0" : "+x"(a) : "x"(b)); \
    return a;                                              \
  }                                                        \
  inline double name(double a, double b) {                 \
    asm volatile(mnemonic "sd %1, %0" : "+x"(a) : "x"(b)); \
    return a;                                              \
  }
HALFULP_BINARY(add, "add")
HALFULP_BINARY(sub, "sub")
HALFULP_BINARY(mul, "mul")
HALFULP_BINARY(div, "div")
#undef HALFULP_BINARY

#define HALFULP_UNARY(name, type, instruction)     \
  inline type name(type a) {                       \
    asm volatile(instruction " %0, %0" : "+x"(a)); \
    return a;                                      \
  }
HALFULP_UNARY(sqrt, float, "sqrtss")
HALFULP_UNARY(sqrt, double, "sqrtsd")
HALFULP_UNARY(round_to_integral, float, "roundss $4,")  // SSE4.1; 4: the mode of MXCSR
HALFULP_UNARY(round_to_integral, double, "roundsd $4,")
#undef HALFULP_UNARY

// FMA3: the form 231, c = a * b + c, is the one whose NaN rule looks at a, b, c in that order (213 looks at b first).
inline float fma(float a, float b, float c) {
  asm volatile("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}
inline double fma(double a, double b, double c) {
  asm volatile("vfmadd231sd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
}

#define HALFULP_CONVERT(name, to, to_register, from, from_register, instruction)      \
  inline to name(from a) {                                                            \
    to result;                                                                        \
    asm volatile(instruction " %1, %0" : "=" to_register(result) : from_register(a)); \
    return result;                                                                    \
  }
HALFULP_CONVERT(to_float, float, "x", double, "x", "cvtsd2ss")
HALFULP_CONVERT(to_double, double, "x", float, "x", "cvtss2sd")
HALFULP_CONVERT(to_i32, std::int32_t, "r", float, "x", "cvtss2si")
HALFULP_CONVERT(to_i32, std::int32_t, "r", double, "x", "cvtsd2si")
HALFULP_CONVERT(to_i64, std::int64_t, "r", float, "x", "cvtss2si")
HALFULP_CONVERT(to_i64, std::int64_t, "r", double, "x", "cvtsd2si")
HALFULP_CONVERT(to_float, float, "x", std::int64_t, "r", "cvtsi2ssq")
HALFULP_CONVERT(to_double, double, "x", std::int64_t, "r", "cvtsi2sdq")
#undef HALFULP_CONVERT

// The flags after (U)COMIS: unordered sets zero, parity and carry.
#define HALFULP_COMPARE(type, suffix)                                                             \
  inline bool eq(type a, type b) {                                                                \
    bool equal, ordered;                                                                          \
    asm volatile("ucomis" suffix " %3, %2" : "=@ccz"(equal), "=@ccnp"(ordered) : "x"(a), "x"(b)); \
    return equal && ordered;                                                                      \
  }                                                                                               \
  inline bool lt(type a, type b) {                                                                \
    bool above;                                                                                   \
    asm volatile("comis" suffix " %2, %1" : "=@cca"(above) : "x"(b), "x"(a));                     \
    return above;                                                                                 \
  }                                                                                               \
  inline bool le(type a, type b) {                                                                \
    bool above_or_equal;                                                                          \
    asm volatile("comis" suffix " %2, %1" : "=@ccae"(above_or_equal) : "x"(b), "x"(a));           \
    return above_or_equal;                                                                        \
  }
HALFULP_COMPARE(float, "s")
HALFULP_COMPARE(double, "d")
#undef HALFULP_COMPARE

}  // namespace halfulp::x86

#endif
