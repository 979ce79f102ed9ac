// This CPU's own floating-point instructions as a device.
#pragma once

#include <halfulp/hardware/device.hpp>

#include <span>
#include <string>

namespace halfulp {

/// "x86": each task goes to the first of the routes below that supports it. Its matrix instructions are VDPBF16PS
/// (x86.avx512.bf16.fp32) and TDPBF16PS (x86.amx.bf16.fp32).
const Device& x86_device();

/// The ways x86 instructions reach a result, the most direct first: x86.avx512fp16, x86.avx512bf16, x86.f16c, x86.sse,
/// x86.adder. Each is also a device, so that one CPU can be held against itself. Empty off x86.
std::span<const Device* const> x86_routes();

namespace x86 {

/// Which instruction sets this CPU has and its operating system lets us use.
struct CpuFeatures {
  bool x86 = false;  ///< x86-64, hence SSE2
  bool sse41 = false, f16c = false, fma = false, avx512bf16 = false, avx512fp16 = false;
  bool amxbf16 = false;  ///< AMX-TILE and AMX-BF16; a process must still ask for the tile registers (matrix.cpp)
  std::string brand;     ///< the processor's own name; empty off x86
};

/// Read once, by CPUID and XGETBV: a set counts only where the system saves its registers.
const CpuFeatures& cpu();

/// What routes share: the instruction sets, the NaN rule, and the refusals common to all of x86.
class Route : public Device {
 public:
  std::string_view independence() const final { return "silicon"; }
  std::string description() const final;
  Support available() const final;
  Support supports(const Task& task) const final;
  NanRule nan_rule(const Task& task) const final;

 protected:
  /// The name of the instruction set that is missing here, or empty.
  virtual std::string_view missing(const CpuFeatures& cpu) const = 0;
  /// supports() where the set is here and the task passed common_refusal().
  virtual Support judge(const Task& task) const = 0;
};

/// Why no x86 instruction computes a task, in one line; empty if one might.
std::string common_refusal(const Task& task);

/// Whether one end of a task is this very format or integer type.
template <class T>
bool is(const NumberType& type, const T& wanted) {
  const T* held = std::get_if<T>(&type);
  return held && *held == wanted;
}

const Device& avx512fp16_route();
const Device& avx512bf16_route();
const Device& f16c_route();
const Device& sse_route();
const Device& adder_route();

// This CPU's matrix instructions (matrix.cpp): Device::matrix_tasks() and multiply() of x86_device().

std::vector<MatrixTask> matrix_tasks();
void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d);

}  // namespace x86
}  // namespace halfulp
