// Sums and programs from columns of code words to columns of code words: on a device, and by the emulation.
#pragma once

#include <halfulp/cuda/kernels.hpp>

#include <span>
#include <vector>

namespace halfulp::cuda {

using Words = std::vector<std::uint64_t>;

/// What results hold before a kernel writes them: no format here has a code word like it.
inline constexpr std::uint64_t unwritten = 0xa5a5'a5a5'a5a5'a5a5;

/// The sums of `rows` rows of `length` terms each, fp16, bf16 or fp32. A kernel that leaves results out leaves `unwritten`.
/// Precondition: terms.size() == rows * length, the device is available. Throws GpuError.
Words sums_on(const Gpu& gpu, const FloatFormat& f, SumOrder order, std::span<const std::uint64_t> terms, std::size_t rows);
/// The same by the emulation; atomic sums in the order of the terms.
Words emulated_sums(const FloatFormat& f, SumOrder order, std::span<const std::uint64_t> terms, std::size_t rows);

/// Inputs of a program in the shapes that ProgramArgs states.
struct ProgramInputs {
  std::vector<Words> columns;
  std::size_t rows = 0, length = 1;
};

/// The outputs of a program, fp16 or bf16. Preconditions: the inputs have their shapes, the device is available. Throws GpuError.
std::vector<Words> program_on(const Gpu& gpu, const FloatFormat& f, Program program, const ProgramInputs& inputs);
/// The same by the emulation: exp, rsqrt and division are correctly rounded there.
std::vector<Words> emulated_program(const FloatFormat& f, Program program, const ProgramInputs& inputs);

}  // namespace halfulp::cuda
