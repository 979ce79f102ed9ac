// An NVIDIA GPU as a device: its element-wise instructions and its matrix instructions. Building the kernels needs
// nvcc; using them needs a driver, which the first call looks for.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/matrix_instructions.hpp>
#include <halfulp/hardware/device.hpp>

#include <memory>
#include <vector>

namespace halfulp {

/// "cuda": the first GPU. A build without nvcc says so.
const Device& cuda_device();
/// "rehearsal": the same host code with the emulation in place of a GPU. Its independence is "emulation": it proves
/// nothing about silicon, and is not among devices().
const Device& rehearsal_device();

namespace cuda {

/// How much is on the device at once.
struct Pieces {
  std::size_t cases = std::size_t{1} << 22;         ///< that a lane holds: 32 MB per column
  std::size_t matrix_bytes = std::size_t{1} << 26;  ///< operands and results of matrix instructions
};

/// A GPU, which has to outlive it, as a device: the instructions of instructions.def, and one matrix instruction for
/// each of matrix_rows(). The matrix instructions take the GPU's first lane: one at a time. Throws GpuError.
std::unique_ptr<Device> make_device(const Gpu& gpu, Pieces pieces = {});

/// The GPU behind a device that make_device() made; nullptr for others.
const Gpu* gpu_of(const Device& device);

/// The number of the instruction that computes a task, of those that an architecture has; or why there is none, in one
/// line.
struct RowOrReason {
  std::size_t row = 0;
  std::string reason;  ///< empty where there is one
};
RowOrReason find_row(const Task& task, int sm);

/// Whether a GPU runs a row, or why not: "a unit of another architecture, sm_90a; this is sm_80".
Support runs(const Gpu& gpu, const MatrixRow& row);

/// Whole tiles as memory holds them: words of A, tiles x m rows of k; of B, tiles x n columns of k; of C, tiles x m x
/// n. They show that answers do not depend on where in a tile they are computed: a device takes only diagonals.
struct WholeTiles {
  std::size_t tiles = 0, k = 0;
  std::vector<std::uint64_t> a, b, c;
};
/// D, tiles x m x n words, of the row of that number. Preconditions: it runs there; the sizes fit. Throws GpuError.
std::vector<std::uint64_t> whole_tiles(const Gpu& gpu, std::size_t row, const WholeTiles& operands,
                                       std::size_t bytes = Pieces().matrix_bytes);

}  // namespace cuda
}  // namespace halfulp
