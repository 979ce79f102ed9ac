// All triples of a 16-bit fma: each block takes a pair of magnitudes, its threads the values of c.
#include <halfulp/cuda/device/intrinsics.cuh>
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/triples.hpp>

#include <stdexcept>

namespace halfulp::cuda {
namespace {

__device__ __half hardware_fma(__half a, __half b, __half c) { return fma_rn_f16(a, b, c); }
__device__ __nv_bfloat16 hardware_fma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return fma_rn_bf16(a, b, c);
}

// nvcc's stubs cannot name a kernel whose template argument is a FloatFormat.
template <class T>
__global__ void __launch_bounds__(threads_per_block) triples(TriplesArgs x) {
  constexpr FloatFormat f = std::is_same_v<T, __half> ? fp16 : bf16;
  std::uint64_t done = 0, digest = 0;
  for (std::uint64_t k = blockIdx.x; k < x.count; k += gridDim.x) {
    const verify::CodePair pair = verify::pair_of(x.begin + k);
    for (std::uint32_t c = threadIdx.x; c < 1U << 16; c += threads_per_block) {
      const auto hardware = [](std::uint32_t a, std::uint32_t b, std::uint32_t z) {
        return static_cast<std::uint32_t>(to_code(hardware_fma(from_code<T>(a), from_code<T>(b), from_code<T>(z))));
      };
      const auto differs = [&x](std::uint32_t a, std::uint32_t b, std::uint32_t z, std::uint32_t ours,
                                std::uint32_t theirs) {
        const unsigned long long slot = atomicAdd(counter(x.counts->differing), 1ULL);
        if (slot < verify::max_triples) x.witnesses[slot] = {a, b, z, ours, theirs};
      };
      digest += verify::digest_term(x.begin + k, c, verify::check_triple<f>(pair, c, hardware, differs));
      ++done;
    }
  }
  add_to_count(x.counts->done, done);
  add_to_count(x.counts->digest, digest);
}

}  // namespace

void launch_triples(Lane lane, const FloatFormat& f, const TriplesArgs& x) {
  const auto blocks = static_cast<unsigned>(x.count < (1U << 20) ? x.count : 1U << 20);
  if (f == fp16) triples<__half><<<blocks, threads_per_block, 0, stream_of(lane)>>>(x);
  else if (f == bf16) triples<__nv_bfloat16><<<blocks, threads_per_block, 0, stream_of(lane)>>>(x);
  else throw std::logic_error("triples: fp16 and bf16 alone");
}

}  // namespace halfulp::cuda
