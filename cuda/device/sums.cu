// Sums of rows: one thread, warp or block per row, or atomics.
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/device/operations.cuh>
#include <halfulp/cuda/device/teams.cuh>

#include <stdexcept>

namespace halfulp::cuda {
namespace {

/// The sum of a row by a team, written by its lane 0.
template <class T, class Team>
__device__ void sum_row(Team& team, bool writes, const SumsArgs& x, std::size_t row) {
  const DeviceOperations<T> o;
  const T sum = sum_by(team, o, x.length, [&](std::size_t i) -> T { return o.value(x.terms[row * x.length + i]); });
  if (writes) x.results[row] = o.word(sum);
}

template <class T>
__global__ void sequential_sums(SumsArgs x) {
  ThreadTeam<T> team;
  for (std::size_t row = first_index(); row < x.rows; row += stride()) sum_row<T>(team, true, x, row);
}

template <class T>
__global__ void warp_sums(SumsArgs x) {
  WarpTeam<T> team;
  for (std::size_t row = first_index() / warp_lanes; row < x.rows; row += stride() / warp_lanes)
    sum_row<T>(team, threadIdx.x % warp_lanes == 0, x, row);
}

template <class T>
__global__ void __launch_bounds__(block_lanes) block_sums(SumsArgs x) {
  BlockTeam<T> team{shared_values<T>()};
  for (std::size_t row = blockIdx.x; row < x.rows; row += gridDim.x) sum_row<T>(team, threadIdx.x == 0, x, row);
}

// A value takes the first bytes of its word of the results.
template <class T>
__global__ void __launch_bounds__(block_lanes) atomic_sums(SumsArgs x) {
  for (std::size_t row = blockIdx.x; row < x.rows; row += gridDim.x) {
    if (threadIdx.x == 0) x.results[row] = 0;
    __syncthreads();
    for (std::size_t i = threadIdx.x; i < x.length; i += block_lanes)
      atomicAdd(reinterpret_cast<T*>(x.results + row), from_code<T>(x.terms[row * x.length + i]));
  }
}

template <class T>
void launch(Lane lane, GpuSumOrder order, const SumsArgs& x) {
  const auto stream = stream_of(lane);
  const unsigned rows = blocks_for(x.rows * block_lanes);  // blocks, where one takes a row
  switch (order) {
    case GpuSumOrder::sequential: sequential_sums<T><<<blocks_for(x.rows), threads_per_block, 0, stream>>>(x); return;
    case GpuSumOrder::warp: warp_sums<T><<<blocks_for(x.rows * warp_lanes), threads_per_block, 0, stream>>>(x); return;
    case GpuSumOrder::block: block_sums<T><<<rows, block_lanes, 0, stream>>>(x); return;
    case GpuSumOrder::atomic: atomic_sums<T><<<rows, block_lanes, 0, stream>>>(x); return;
  }
}

}  // namespace

void launch_sums(Lane lane, const FloatFormat& f, GpuSumOrder order, const SumsArgs& x) {
  if (f == fp16) launch<__half>(lane, order, x);
  else if (f == bf16) launch<__nv_bfloat16>(lane, order, x);
  else if (f == fp32) launch<float>(lane, order, x);
  else throw std::logic_error("sums: fp16, bf16 and fp32 alone");
}

}  // namespace halfulp::cuda
