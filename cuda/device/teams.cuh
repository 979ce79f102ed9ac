// The teams of sums.hpp on the device. All threads of a team call every member.
#pragma once

#include <halfulp/cuda/sums.hpp>

#include <cuda_runtime.h>

namespace halfulp::cuda {

/// A single thread.
template <class V>
struct ThreadTeam {
  static constexpr int lanes = 1;
  V value;
  template <class F>
  __device__ void each(F&& f) {
    value = f(0);
  }
  template <class Op>
  __device__ void fold(int, Op&&) {}
  __device__ V first() const { return value; }
};

/// A warp. In fold(), lanes from `distance` on add as well; nothing reads their values.
template <class V>
struct WarpTeam {
  static constexpr int lanes = warp_lanes;
  V value;
  template <class F>
  __device__ void each(F&& f) {
    value = f(static_cast<int>(threadIdx.x % lanes));
  }
  template <class Op>
  __device__ void fold(int distance, Op&& op) {
    value = op(value, __shfl_down_sync(0xffff'ffff, value, distance));
  }
  __device__ V first() const { return __shfl_sync(0xffff'ffff, value, 0); }
};

/// A block of block_lanes threads, on shared memory for as many values.
template <class V>
struct BlockTeam {
  static constexpr int lanes = block_lanes;
  V* shared;
  template <class F>
  __device__ void each(F&& f) {
    shared[threadIdx.x] = f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <class Op>
  __device__ void fold(int distance, Op&& op) {
    if (threadIdx.x < static_cast<unsigned>(distance))
      shared[threadIdx.x] = op(shared[threadIdx.x], shared[threadIdx.x + distance]);
    __syncthreads();
  }
  __device__ V first() const {
    const V value = shared[0];
    __syncthreads();  // the next each() writes there
    return value;
  }
  template <class F>
  __device__ void for_each(std::size_t n, F&& f) {
    for (std::size_t i = threadIdx.x; i < n; i += lanes) f(i);
  }
};

/// Shared memory of a block for a team of V. V may have a constructor, which shared variables must not run.
template <class V>
__device__ inline V* shared_values() {
  __shared__ alignas(V) unsigned char bytes[block_lanes * sizeof(V)];
  return reinterpret_cast<V*>(bytes);
}

}  // namespace halfulp::cuda
