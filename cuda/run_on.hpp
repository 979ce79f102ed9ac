// Sums and programs on the host: what a kernel computes, with a function in the place of every instruction.
#pragma once

#include <halfulp/cuda/kernels.hpp>
#include <halfulp/cuda/rehearsal.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace halfulp::cuda {

/// The operations object of sums.hpp and programs.hpp on code words of one format, each answered for as an instruction
/// of the device: to nearest, a GPU's NaN. emulated_answer makes it the emulation, exp, rsqrt and division correctly
/// rounded.
class CodeOperations {
 public:
  using Value = std::uint64_t;
  /// Precondition: the format is fp16, bf16 or fp32; `answer` outlives this.
  CodeOperations(const FloatFormat& f, const Answer& answer);

  Value add(Value a, Value b) const { return run(Operation::add, a, b); }
  Value sub(Value a, Value b) const { return run(Operation::sub, a, b); }
  Value mul(Value a, Value b) const { return run(Operation::mul, a, b); }
  Value div(Value a, Value b) const { return run(Operation::div, a, b); }
  Value max(Value a, Value b) const { return run(Operation::max, a, b); }
  Value exp(Value a) const { return run(Operation::exp, a); }
  Value rsqrt(Value a) const { return run(Operation::rsqrt, a); }
  Value fma(Value a, Value b, Value c) const { return run(Operation::fma, a, b, c); }
  Value from_integer(std::int32_t n) const { return (*answer_)(of_integer_, static_cast<std::uint32_t>(n), 0, 0); }
  Value zero() const { return format_.zero(); }
  Value minus_infinity() const { return format_.infinity(true); }

  Value value(std::uint64_t word) const { return word; }
  std::uint64_t word(Value x) const { return x; }
  const FloatFormat& format() const { return format_; }

 private:
  Value run(Operation operation, Value a, Value b = 0, Value c = 0) const {
    Instruction instruction = instruction_;
    instruction.operation = operation;
    return (*answer_)(instruction, a, b, c);
  }

  FloatFormat format_;
  const Answer* answer_;
  Instruction instruction_, of_integer_;
};

/// What the kernels put into x.results and x.outputs; pointers are to host memory. Atomic sums: in the order of the
/// terms.
void run_sums(const CodeOperations& o, GpuSumOrder order, const SumsArgs& x);
void run_program(const CodeOperations& o, Program program, const ProgramArgs& x);

// Sums and programs from columns of code words to columns of code words: on a device, and by the emulation.

using Words = std::vector<std::uint64_t>;

/// What results hold before a kernel writes them: no format here has a code word like it.
inline constexpr std::uint64_t unwritten = 0xa5a5'a5a5'a5a5'a5a5;

/// The sums of `rows` rows of `length` terms each, fp16, bf16 or fp32. A kernel that leaves results out leaves
/// `unwritten`. Precondition: terms.size() == rows * length, the device is available. Throws GpuError.
Words sums_on(const Gpu& gpu, const FloatFormat& f, GpuSumOrder order, std::span<const std::uint64_t> terms,
              std::size_t rows);
/// The same by the emulation; atomic sums in the order of the terms.
Words emulated_sums(const FloatFormat& f, GpuSumOrder order, std::span<const std::uint64_t> terms, std::size_t rows);

/// Inputs of a program in the shapes that ProgramArgs states.
struct ProgramInputs {
  std::vector<Words> columns;
  std::size_t rows = 0, length = 1;
};

/// The outputs of a program, fp16 or bf16. Preconditions: the inputs have their shapes, the device is available. Throws
/// GpuError.
std::vector<Words> program_on(const Gpu& gpu, const FloatFormat& f, Program program, const ProgramInputs& inputs);
/// The same by the emulation: exp, rsqrt and division are correctly rounded there.
std::vector<Words> emulated_program(const FloatFormat& f, Program program, const ProgramInputs& inputs);

}  // namespace halfulp::cuda
