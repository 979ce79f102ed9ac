// An instruction beside halfulp's own arithmetic, the same source as on the host, on all inputs or given ones.
#include <halfulp/cuda/device/launch.cuh>
#include <halfulp/cuda/device/rows.cuh>

#include <halfulp/emulation/operation.hpp>

#include <array>

namespace halfulp::cuda {
namespace {

template <class R>
constexpr bool has_sweep() {
  return sweeps(R::operation, NumberType(R::from), NumberType(R::to), R::rounding.flush_inputs);
}

template <class R>
__device__ std::uint64_t ours(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  constexpr FloatFormat f = R::from, to = R::to;  // copies: device code has no address of a static member
  constexpr Rounding r = R::rounding;
  return Definition<R::operation>::template of<std::uint64_t>(f, to, r, a, b, c, 0).code;
}

__device__ void store(std::uint8_t* to, std::size_t i, std::uint64_t code, int bytes) {
  if (bytes == 1) to[i] = static_cast<std::uint8_t>(code);
  else reinterpret_cast<std::uint16_t*>(to)[i] = static_cast<std::uint16_t>(code);
}

template <int i>
__global__ void sweep(SweepArgs x) {
  using R = Row<i>;
  constexpr FloatFormat from = R::from, to = R::to;
  constexpr int bits = from.storage_bits(), arity = info(R::operation).arity, bytes = to.storage_bits() > 8 ? 2 : 1;
  std::uint64_t done = 0, differing = 0;
  for (std::size_t k = first_index(); k < x.count; k += stride()) {
    std::uint64_t a, b = 0, c = 0;
    if (x.a) {
      a = x.a[k], b = x.b ? x.b[k] : 0, c = x.c ? x.c[k] : 0;
    } else {
      const std::uint64_t n = x.begin + k;
      if constexpr (arity == 1) a = n;
      else if constexpr (arity == 2) a = n >> bits, b = n & from.code_mask();
      else a = n >> 2 * bits, b = n >> bits & from.code_mask(), c = n & from.code_mask();
    }
    const std::uint64_t mine = ours<R>(a, b, c);
    std::uint64_t theirs = answer<i>(a, b, c);
    if (to.is_nan(theirs)) theirs = to.canonical_nan();
    store(x.ours, k, mine, bytes);
    store(x.theirs, k, theirs, bytes);
    differing += mine != theirs;
    ++done;
  }
  add_to_count(x.counts->done, done);
  add_to_count(x.counts->differing, differing);
}

using Launcher = void (*)(Lane, const SweepArgs&);

template <int i>
constexpr Launcher launcher() {
  if constexpr (has_sweep<Row<i>>())
    return [](Lane lane, const SweepArgs& x) {
      sweep<i><<<blocks_for(x.count), threads_per_block, 0, stream_of(lane)>>>(x);
    };
  else return nullptr;
}

template <int... rows>
constexpr auto launchers(std::integer_sequence<int, rows...>) {
  return std::array<Launcher, sizeof...(rows)>{launcher<rows>()...};
}

}  // namespace

void launch_sweep(Lane lane, std::size_t row, const SweepArgs& x) {
  static constexpr auto all = launchers(std::make_integer_sequence<int, row_count>{});
  all.at(row)(lane, x);
}

}  // namespace halfulp::cuda
