// What the kernels of both kinds of matrix instructions share.
#pragma once

#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/matrix_instructions.hpp>
#include <halfulp/cuda/transfer.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace halfulp::cuda {

/// What holds a register's bits, and an element in memory.
template <Element e>
using Register = std::conditional_t<e == Element::f64, std::uint64_t, std::uint32_t>;
template <Element e>
using Stored = std::conditional_t<bytes_of(e) == 1, std::uint8_t,
                                  std::conditional_t<bytes_of(e) == 2, std::uint16_t, Register<e>>>;

/// Elements from and to device memory.
template <Element e>
struct Loads {
  const void* from;
  __device__ Stored<e> operator()(std::size_t index) const { return static_cast<const Stored<e>*>(from)[index]; }
};
struct Stores {
  std::uint64_t* to;
  __device__ void operator()(std::size_t index, std::uint64_t word) const { to[index] = word; }
};

using MatrixLauncher = void (*)(cudaStream_t, const MatrixArgs&);

/// The launchers of each kind, by the instruction's number in matrix_instructions; nullptr where it is of the other
/// kind. (Kernels are templates of that number: nvcc takes no structure there.)
MatrixLauncher mma_launcher(std::size_t instruction);
MatrixLauncher wgmma_launcher(std::size_t instruction);

/// Blocks for pieces of work that take one each; blocks go on until all is done.
inline unsigned blocks_of(std::size_t pieces) {
  return static_cast<unsigned>(std::min<std::size_t>(pieces, std::size_t{1} << 16));
}

}  // namespace halfulp::cuda
