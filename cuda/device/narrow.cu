// halfulp's own quantize, encode and decode: sixteen bytes of floats per thread and step, two steps in flight.
#include <halfulp/cuda/borrowed.hpp>
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/emulation/philox.hpp>

namespace halfulp::cuda {
namespace {

constexpr int each = 4;

template <class Out>
struct alignas(each * sizeof(Out)) Four {
  Out of[each];
};
struct alignas(16) Words {
  std::uint32_t of[each];
};

/// Blocks for a kernel that moves memory: as many as keep the device busy, each with several steps.
unsigned blocks_moving(std::size_t groups) { return blocks_for((groups + 1) / 2); }

template <class N, class Out>
struct Rounding4 {
  NarrowPlan plan;
  RandomStream random;

  __device__ Four<Out> operator()(const Words& x, std::size_t first) const {
    Four<Out> out;
    [[maybe_unused]] r123::Philox4x32::ctr_type bits{};
    if constexpr (stochastic)
      if (whole_blocks()) bits = inlined::philox(random.seed, random.stream, (random.first + first) / each);
#pragma unroll
    for (int k = 0; k < each; ++k) out.of[k] = one(x.of[k], first + k, bits[k]);
    return out;
  }
  __device__ Out one(std::uint32_t x, std::size_t i, std::uint32_t given) const {
    if constexpr (stochastic)
      if (!whole_blocks()) given = inlined::bits_of(random, i);
    return static_cast<Out>(N::round(plan, x, given));
  }
  __device__ Out alone(std::uint32_t x, std::size_t i) const {
    return static_cast<Out>(N::round(plan, x, stochastic ? inlined::bits_of(random, i) : 0));
  }
  /// Whether four elements take the four words of a block.
  __device__ bool whole_blocks() const { return random.roundings_per_word == 1 && random.first % each == 0; }

  static constexpr bool stochastic = N::mode_of == RoundingMode::stochastic;
};

template <class N, class Out>
__global__ void __launch_bounds__(threads_per_block)
    narrow(Rounding4<N, Out> f, const std::uint32_t* __restrict__ in, Out* __restrict__ out, std::size_t count) {
  const std::size_t groups = count / each, step = stride();
  const auto* from = reinterpret_cast<const Words*>(in);
  auto* to = reinterpret_cast<Four<Out>*>(out);
  std::size_t g = first_index();
  for (; g + step < groups; g += 2 * step) {
    const Words x = from[g], y = from[g + step];
    to[g] = f(x, g * each);
    to[g + step] = f(y, (g + step) * each);
  }
  if (g < groups) to[g] = f(from[g], g * each);
  for (std::size_t i = groups * each + first_index(); i < count; i += step) out[i] = f.alone(in[i], i);
}

template <class Code>
__global__ void __launch_bounds__(threads_per_block)
    widened(array::WidenPlan plan, const Code* __restrict__ in, std::uint32_t* __restrict__ out, std::size_t count) {
  const std::size_t groups = count / each, step = stride();
  const auto* from = reinterpret_cast<const Four<Code>*>(in);
  auto* to = reinterpret_cast<Words*>(out);
  const auto one = [&plan](const Four<Code>& x) {
    Words y;
#pragma unroll
    for (int k = 0; k < each; ++k) y.of[k] = widen(plan, x.of[k]);
    return y;
  };
  std::size_t g = first_index();
  for (; g + step < groups; g += 2 * step) {
    const Four<Code> x = from[g], y = from[g + step];
    to[g] = one(x);
    to[g + step] = one(y);
  }
  if (g < groups) to[g] = one(from[g]);
  for (std::size_t i = groups * each + first_index(); i < count; i += step) out[i] = widen(plan, in[i]);
}

template <class N, class Out>
void start(cudaStream_t stream, const NarrowArgs& x) {
  narrow<N, Out><<<blocks_moving(x.count / each), threads_per_block, 0, stream>>>(
      {x.plan, x.random}, reinterpret_cast<const std::uint32_t*>(x.in), static_cast<Out*>(x.out), x.count);
}
void start(cudaStream_t stream, const NarrowArgs& x) {
  if (x.bytes == 0)
    with_narrow<NarrowResult::value>(x.plan.mode, [&](auto n) { start<decltype(n), std::uint32_t>(stream, x); });
  else if (x.bytes == 1)
    with_narrow<NarrowResult::code>(x.plan.mode, [&](auto n) { start<decltype(n), std::uint8_t>(stream, x); });
  else with_narrow<NarrowResult::code>(x.plan.mode, [&](auto n) { start<decltype(n), std::uint16_t>(stream, x); });
}

template <class Code>
void start(cudaStream_t stream, const WidenArgs& x) {
  widened<Code><<<blocks_moving(x.count / each), threads_per_block, 0, stream>>>(
      x.plan, static_cast<const Code*>(x.in), reinterpret_cast<std::uint32_t*>(x.out), x.count);
}
void start(cudaStream_t stream, const WidenArgs& x) {
  if (x.bytes == 1) start<std::uint8_t>(stream, x);
  else start<std::uint16_t>(stream, x);
}

template <class Args>
void start_in(const Stream& stream, const Args& x) {
  const auto check = [](cudaError_t status, const char* what) {
    if (status != cudaSuccess) throw GpuError(std::string("cuda: ") + what + ": " + cudaGetErrorString(status), false);
  };
  check(cudaSetDevice(stream.device), "device");
  start(static_cast<cudaStream_t>(stream.handle), x);
  check(cudaGetLastError(), "launch");
}

}  // namespace

void launch_narrow(Lane lane, const NarrowArgs& x) { start(stream_of(lane), x); }
void launch_widen(Lane lane, const WidenArgs& x) { start(stream_of(lane), x); }

void narrow_in(const Stream& stream, const NarrowArgs& x) { start_in(stream, x); }
void widen_in(const Stream& stream, const WidenArgs& x) { start_in(stream, x); }

}  // namespace halfulp::cuda
