#include "timing.cuh"

#include <halfulp/emulation/philox.hpp>

namespace halfulp::bench {
namespace {

__global__ void uniform(float* to, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x)
    to[i] = static_cast<float>(static_cast<int>(inlined::rounding_bits(seed, 1, i))) * 0x1p-31f;
}

}  // namespace

void fill_uniform(float* device, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
  uniform<<<4096, 256, 0, stream>>>(device, count, seed);
}

}  // namespace halfulp::bench
