// quantize, encode and decode beside a copy from device memory to device memory.
#include "timing.cuh"

#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/formats/catalogue.hpp>

#include <memory>

namespace halfulp::bench {
namespace {

using cuda::Gpu;
using cuda::Lane;
using cuda::Memory;

struct Arrays {
  Arrays(const Gpu& on, std::size_t elements) : gpu(on), in(on, elements), out(on, elements) {
    // Floats of moderate size: in range of every format or just beyond, as tensors are.
    fill_uniform(in.data(), in.size(), 1, cuda::stream_of(Lane::first));
  }
  const Gpu& gpu;
  Memory<float> in, out;
};

void rate(benchmark::State& state, std::size_t elements, double bytes_each) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(elements));
  state.SetBytesProcessed(
      static_cast<std::int64_t>(static_cast<double>(state.iterations()) * static_cast<double>(elements) * bytes_each));
}

void finish(benchmark::internal::Benchmark* row) {
  row->UseManualTime()->Unit(benchmark::kMicrosecond)->Repetitions(5)->ReportAggregatesOnly(true)->MinTime(0.02);
}

}  // namespace

void add_array_rows(const Gpu& gpu, std::size_t elements) {
  const auto arrays = std::make_shared<Arrays>(gpu, elements);
  finish(benchmark::RegisterBenchmark("copy float", [arrays](benchmark::State& state) {
    time_on_device(state, cuda::stream_of(Lane::first), 4, [&](cudaStream_t stream) {
      check(
          cudaMemcpyAsync(arrays->out.data(), arrays->in.data(), arrays->in.bytes(), cudaMemcpyDeviceToDevice, stream),
          "copy");
    });
    rate(state, arrays->in.size(), 8);
  }));
  for (const FloatFormat& f : {fp16, bf16, e4m3, e5m2, e2m1}) {
    const int bytes = f.storage_bytes();
    for (const RoundingMode mode :
         {RoundingMode::nearest_even, RoundingMode::toward_zero, RoundingMode::toward_positive,
          RoundingMode::nearest_away, RoundingMode::to_odd, RoundingMode::stochastic}) {
      const auto plan = array::narrow_plan<float>(f, {.mode = mode}, array::Source::conversion);
      for (const int width : {0, bytes}) {
        const std::string name = (width == 0 ? "quantize " : "encode ") + format_name(f) + " " +
                                 std::string(name_of(mode));
        finish(benchmark::RegisterBenchmark(name.c_str(), [arrays, plan, width](benchmark::State& state) {
          time_on_device(state, cuda::stream_of(Lane::first), 4, [&](cudaStream_t) {
            arrays->gpu.kernels().narrow(
                Lane::first, {*plan, arrays->in.data(), arrays->out.data(), width, arrays->in.size(), {1, 2, 0}});
          });
          rate(state, arrays->in.size(), 4 + (width == 0 ? 4 : width));
        }));
      }
    }
    finish(benchmark::RegisterBenchmark(("decode " + format_name(f)).c_str(), [arrays, f,
                                                                               bytes](benchmark::State& state) {
      const auto plan = array::widen_plan(f, false);
      const Memory<std::uint8_t> codes(arrays->gpu, arrays->in.size() * static_cast<std::size_t>(bytes));
      const auto encoding = array::narrow_plan<float>(f, {}, array::Source::conversion);
      arrays->gpu.kernels().narrow(Lane::first,
                                   {*encoding, arrays->in.data(), codes.data(), bytes, arrays->in.size(), {}});
      time_on_device(state, cuda::stream_of(Lane::first), 4, [&](cudaStream_t) {
        arrays->gpu.kernels().widen(Lane::first, {*plan, codes.data(), bytes, arrays->out.data(), arrays->in.size()});
      });
      rate(state, arrays->in.size(), 4 + bytes);
    }));
  }
}

}  // namespace halfulp::bench
