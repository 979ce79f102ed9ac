// Launching: streams, grids, and the launchers that runtime.cu puts into the table of kernels.
#pragma once

#include <halfulp/cuda/kernels.hpp>

#include <cuda_runtime.h>

namespace halfulp::cuda {

/// The CUDA stream of a lane.
cudaStream_t stream_of(Lane lane);

inline constexpr unsigned threads_per_block = 256;
/// Enough blocks for `count` threads, or to fill any device; kernels stride over the rest.
inline unsigned blocks_for(std::size_t count) {
  constexpr std::size_t most = 1 << 14;
  const std::size_t blocks = (count + threads_per_block - 1) / threads_per_block;
  return static_cast<unsigned>(blocks < most ? (blocks == 0 ? 1 : blocks) : most);
}
__device__ inline std::size_t first_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t stride() { return std::size_t{gridDim.x} * blockDim.x; }

__device__ inline unsigned long long* counter(std::uint64_t& word) {
  return reinterpret_cast<unsigned long long*>(&word);
}
/// Adds every thread's number to a counter, one atomic operation per warp. All threads of a warp come here.
__device__ inline void add_to_count(std::uint64_t& word, std::uint64_t number) {
  for (int distance = 16; distance > 0; distance /= 2) number += __shfl_down_sync(0xffff'ffff, number, distance);
  if (threadIdx.x % 32 == 0 && number != 0) atomicAdd(counter(word), static_cast<unsigned long long>(number));
}

void launch_elementwise(Lane lane, std::size_t row, const ElementwiseArgs& x);
void launch_sweep(Lane lane, std::size_t row, const SweepArgs& x);
void launch_narrow(Lane lane, const NarrowArgs& x);
void launch_widen(Lane lane, const WidenArgs& x);
void launch_triples(Lane lane, const FloatFormat& f, const TriplesArgs& x);
void launch_sums(Lane lane, const FloatFormat& f, GpuSumOrder order, const SumsArgs& x);
void launch_program(Lane lane, const FloatFormat& f, Program program, const ProgramArgs& x);
void launch_matrix(Lane lane, std::size_t row, const MatrixArgs& x);

}  // namespace halfulp::cuda
