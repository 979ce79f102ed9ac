// mma.sync: one warp per tile (m8n8k4 of f16: per four tiles).
#include <halfulp/cuda/device/matrix.cuh>
#include <halfulp/cuda/device/multiply.cuh>

namespace halfulp::cuda {
namespace {

constexpr int warps_per_block = 4;

template <std::size_t number>
__global__ void __launch_bounds__(warps_per_block * 32) mma_kernel(MatrixArgs args) {
  constexpr MatrixInstruction x = matrix_instructions[number];
  if constexpr (assembles(x)) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::size_t warps = std::size_t{gridDim.x} * warps_per_block, groups = args.tiles / x.tiles();
    for (std::size_t group = std::size_t{blockIdx.x} * warps_per_block + threadIdx.x / 32; group < groups;
         group += warps) {
      const Position at{{args.steps, args.whole}, group * x.tiles(), lane};
      Register<x.d> d[registers(x.d, x.d_count())] = {};
      load_c(x, at, d, Loads<x.d>{args.c});
      for (std::size_t step = 0; step < args.steps; ++step) {
        Register<x.a> a[registers(x.a, x.a_count())] = {};
        Register<x.b> b[registers(x.b, x.b_count())] = {};
        load_a(x, at, step, a, Loads<x.a>{args.a});
        load_b(x, at, step, b, Loads<x.b>{args.b});
        Multiply<x>::run(d, a, b);
      }
      store_d(x, at, d, Stores{args.d});
    }
  } else {
    __trap();
  }
}

template <std::size_t number>
void launch(cudaStream_t stream, const MatrixArgs& args) {
  const std::size_t groups = args.tiles / matrix_instructions[number].tiles();
  if (groups == 0) return;
  mma_kernel<number>
      <<<blocks_of((groups + warps_per_block - 1) / warps_per_block), warps_per_block * 32, 0, stream>>>(args);
}

template <std::size_t number>
constexpr MatrixLauncher launcher() {
  if constexpr (matrix_instructions[number].kind == MatrixKind::mma) return launch<number>;
  else return nullptr;
}

template <std::size_t... number>
constexpr std::array<MatrixLauncher, sizeof...(number)> launchers(std::index_sequence<number...>) {
  return {launcher<number>()...};
}

}  // namespace

MatrixLauncher mma_launcher(std::size_t instruction) {
  constexpr auto all = launchers(std::make_index_sequence<std::size(matrix_instructions)>());
  return all[instruction];
}

}  // namespace halfulp::cuda
