// This CPU's own floating-point instructions as a backend.
#pragma once

#include <halfulp/hardware/backend.hpp>
#include <halfulp/hardware/matrix.hpp>
#include <halfulp/hardware/x86/cpu.hpp>

#include <span>

namespace halfulp {

/// "x86": each task goes to the first of the routes below that supports it.
const Backend& x86_backend();

/// The ways x86 instructions reach a result, the most direct first: x86.avx512fp16, x86.avx512bf16, x86.f16c, x86.sse,
/// x86.adder. Each is a backend by itself, so that one CPU can be held against itself. Empty off x86.
std::span<const Backend* const> x86_routes();

namespace x86 {

/// What routes share: a name, the instruction sets, the NaN rule, and the refusals common to all of x86.
class Route : public Backend {
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

/// The features of this CPU, read once.
const CpuFeatures& cpu();

const Backend& avx512fp16_route();
const Backend& avx512bf16_route();
const Backend& f16c_route();
const Backend& sse_route();
const Backend& adder_route();

}  // namespace x86

// This CPU's matrix instructions.

/// x86:x86.avx512.bf16.fp32 (VDPBF16PS) and x86:x86.amx.bf16.fp32 (TDPBF16PS), here or not: ask available(). Any depth:
/// k is padded with zeros to a multiple of the instruction's, and the instructions are chained.
std::span<const MatrixDevice* const> x86_matrix_devices();

}  // namespace halfulp
