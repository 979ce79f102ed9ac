// An NVIDIA GPU as a backend. Building its kernels needs nvcc; using them needs a driver, which is not looked for
// before the first call.
#pragma once

#include <halfulp/cuda/gpu.hpp>

#include <memory>

namespace halfulp {

/// "cuda": the device's own element-wise instructions (cuda/instructions.def). Without nvcc at build time it says so.
const Backend& cuda_backend();
/// "rehearsal": the same host code with the emulation in place of a GPU. Its independence is "emulation": it proves
/// nothing about silicon, and is not among backends().
const Backend& rehearsal_backend();

namespace cuda {
/// Cases that a lane holds at a time: 32 MB a column.
inline constexpr std::size_t most_cases = std::size_t{1} << 22;

/// A backend on a device, which has to outlive it.
std::unique_ptr<Backend> make_backend(const Gpu& gpu, std::size_t cases = most_cases);

/// The number of the instruction that computes a task, of those that an architecture has; or why there is none, in one
/// line.
struct RowOrReason {
  std::size_t row = 0;
  std::string reason;  ///< empty where there is one
};
RowOrReason find_row(const Task& task, int sm);
}  // namespace cuda

}  // namespace halfulp
