// wgmma: one warpgroup, here a block, per tile. Only machine code of sm_90a has it.
#include <halfulp/cuda/device/matrix.cuh>

namespace halfulp::cuda {
namespace {

constexpr int threads = 128;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// d = a b + d, of what two descriptors describe. Returns once d has it: the registers may be read, the memory written
/// again.
template <MatrixInstruction x>
struct Multiply;

// PTX ISA 9.7.15.5.2. The operands behind the descriptors: whether d is an addend, the signs of A and of B (1 or -1),
// and, for f16 and bf16 only, whether they are transposed, that is, not K-major. The fence orders earlier accesses of
// d's registers.
#define HALFULP_WGMMA_asm(text, registers, descriptors, tail, ...)                                          \
  asm volatile("{\n\t.reg .pred addend;\n\tsetp.eq.b32 addend, 0, 0;\n\twgmma.fence.sync.aligned;\n\t" text \
               " {" registers "}, " descriptors ", addend, 1, 1" tail                                       \
               ";\n\t"                                                                                      \
               "wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\t}"                  \
               : __VA_ARGS__                                                                                \
               : "l"(a), "l"(b)                                                                             \
               : "memory")
#define HALFULP_to_f32(text, tail) \
  HALFULP_WGMMA_asm(text, "%0, %1, %2, %3", "%4, %5", tail, "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]))
#define HALFULP_to_f16(text, tail) HALFULP_WGMMA_asm(text, "%0, %1", "%2, %3", tail, "+r"(d[0]), "+r"(d[1]))
#define HALFULP_tail_f16 ", 0, 0"
#define HALFULP_tail_bf16 ", 0, 0"
#define HALFULP_tail_tf32
#define HALFULP_tail_e4m3
#define HALFULP_tail_e5m2

#define HALFULP_MMA(m, n, k, A, B, D)
#define HALFULP_WGMMA(m, n, k, A, B, D)                                                                         \
  template <>                                                                                                   \
  struct Multiply<MatrixInstruction{MatrixKind::wgmma, m, n, k, Element::A, Element::B, Element::D}> {          \
    static __device__ void run(std::uint32_t* d, std::uint64_t a, std::uint64_t b) {                            \
      HALFULP_to_##D("wgmma.mma_async.sync.aligned.m" #m "n" #n "k" #k "." #D "." #A "." #B, HALFULP_tail_##A); \
    }                                                                                                           \
  };
#include <halfulp/cuda/matrix_instructions.def>

/// Elements into shared memory.
template <Element e>
struct Writes {
  unsigned char* to;
  __device__ void operator()(int offset, Stored<e> word) const { *reinterpret_cast<Stored<e>*>(to + offset) = word; }
};

#endif

template <std::size_t number>
__global__ void __launch_bounds__(threads) wgmma_kernel(MatrixArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr MatrixInstruction x = matrix_instructions[number];
  static_assert(x.k * bytes_of(x.a) == step_bytes && x.k * bytes_of(x.b) == step_bytes && x.threads() == threads);
  __shared__ alignas(128) unsigned char shared_a[shared_bytes(x.m)];
  __shared__ alignas(128) unsigned char shared_b[shared_bytes(x.n)];
  const std::uint64_t a = descriptor(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_a)));
  const std::uint64_t b = descriptor(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_b)));
  for (std::size_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
    const Position at{{args.steps, args.whole}, tile, static_cast<int>(threadIdx.x)};
    std::uint32_t d[registers(x.d, x.d_count())] = {};
    load_c(x, at, d, Loads<x.d>{args.c});
    for (std::size_t step = 0; step < args.steps; ++step) {
      __syncthreads();  // the instruction before this one has read its operands, in all warps
      share_a(x, at, step, Loads<x.a>{args.a}, Writes<x.a>{shared_a});
      share_b(x, at, step, Loads<x.b>{args.b}, Writes<x.b>{shared_b});
      // Ordinary stores become visible to the tensor cores, which read by the asynchronous proxy.
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncthreads();
      Multiply<x>::run(d, a, b);
    }
    store_d(x, at, d, Stores{args.d});
  }
#else
  __trap();
#endif
}

template <std::size_t number>
void launch(cudaStream_t stream, const MatrixArgs& args) {
  if (args.tiles != 0) wgmma_kernel<number><<<blocks_of(args.tiles), threads, 0, stream>>>(args);
}

template <std::size_t number>
constexpr MatrixLauncher launcher() {
  if constexpr (matrix_instructions[number].kind == MatrixKind::wgmma) return launch<number>;
  else return nullptr;
}

template <std::size_t... number>
constexpr std::array<MatrixLauncher, sizeof...(number)> launchers(std::index_sequence<number...>) {
  return {launcher<number>()...};
}

}  // namespace

MatrixLauncher wgmma_launcher(std::size_t instruction) {
  constexpr auto all = launchers(std::make_index_sequence<std::size(matrix_instructions)>());
  return all[instruction];
}

}  // namespace halfulp::cuda
