// Programs: one thread per element, or one block per row.
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/device/operations.cuh>
#include <halfulp/cuda/device/teams.cuh>
#include <halfulp/cuda/run_program.hpp>

#include <stdexcept>

namespace halfulp::cuda {
namespace {

template <class T, Program p>
__global__ void elements(ProgramArgs x) {
  const DeviceOperations<T> o;
  for (std::size_t i = first_index(); i < x.rows; i += stride()) run_element<p>(o, x, i);
}

template <class T, Program p>
__global__ void __launch_bounds__(block_lanes) rows(ProgramArgs x) {
  const DeviceOperations<T> o;
  BlockTeam<T> team{shared_values<T>()};
  for (std::size_t row = blockIdx.x; row < x.rows; row += gridDim.x) run_row<p>(team, o, x, row);
}

template <class T>
void launch(Lane lane, Program program, const ProgramArgs& x) {
  with_program(program, [&]<Program p>() {
    if constexpr (info(p).rows) rows<T, p><<<blocks_for(x.rows * block_lanes), block_lanes, 0, stream_of(lane)>>>(x);
    else elements<T, p><<<blocks_for(x.rows), threads_per_block, 0, stream_of(lane)>>>(x);
  });
}

}  // namespace

void launch_program(Lane lane, const FloatFormat& f, Program program, const ProgramArgs& x) {
  if (f == fp16) launch<__half>(lane, program, x);
  else if (f == bf16) launch<__nv_bfloat16>(lane, program, x);
  else throw std::logic_error("programs: fp16 and bf16 alone");
}

}  // namespace halfulp::cuda
