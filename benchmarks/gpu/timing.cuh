// Time of device work as Google Benchmark's manual time, and memory that ends with its scope.
#pragma once

#include <halfulp/cuda/gpu.hpp>

#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace halfulp::bench {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// Runs `work(stream)` once a step of the benchmark, several times between two events where it is short.
template <class Work>
void time_on_device(benchmark::State& state, cudaStream_t stream, int times, Work&& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  work(stream);  // module load and the first touch stay outside
  check(cudaGetLastError(), "launch");
  check(cudaStreamSynchronize(stream), "first run");
  for (auto _ : state) {
    check(cudaEventRecord(begin, stream), "event");
    for (int i = 0; i < times; ++i) work(stream);
    check(cudaEventRecord(end, stream), "event");
    check(cudaGetLastError(), "launch");
    check(cudaEventSynchronize(end), "run");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    state.SetIterationTime(milliseconds * 1e-3 / times);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

/// Random floats in [-1, 1), but no zeros, because hardware may be faster with them.
void fill_uniform(float* device, std::size_t count, std::uint64_t seed, cudaStream_t stream);

void add_array_rows(const cuda::Gpu& gpu, std::size_t elements);
/// Why there are none, in one line; empty where there are.
std::string add_product_rows(const cuda::Gpu& gpu, bool quick);

}  // namespace halfulp::bench
