// Threads that work on one row together, and the order in which they combine its terms: the one source of that order,
// for kernels and for the host.
#pragma once

#include <halfulp/emulation/rounding.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace halfulp::cuda {

// A team of T::lanes lanes, each with a value of its own:
//   each(f)          lane l's value is f(l)
//   fold(d, op)      lane l < d: value = op(value, the value of lane l + d); nothing reads the other values afterwards
//   first()          lane 0's value, for all lanes
//   for_each(n, f)   f(i) for every i < n, by lane i mod lanes
// In device/teams.cuh: a thread, a warp (shuffles), a block (shared memory). Here: loops.

/// All lanes in one thread of the host.
template <class V, int count>
struct HostTeam {
  static constexpr int lanes = count;
  std::array<V, count> values{};

  template <class F>
  constexpr void each(F&& f) {
    for (int lane = 0; lane < lanes; ++lane) values[lane] = f(lane);
  }
  template <class Op>
  constexpr void fold(int distance, Op&& op) {
    for (int lane = 0; lane < distance; ++lane) values[lane] = op(values[lane], values[lane + distance]);
  }
  constexpr V first() const { return values[0]; }
  template <class F>
  constexpr void for_each(std::size_t n, F&& f) {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};

/// The order of every team. Lane l combines terms l, l + lanes, l + 2 lanes... one after the other, starting with the
/// first of them itself, or holds `nothing` if there is none. Then a tree: lane l takes lane l + d in, for d = lanes /
/// 2, ..., 2, 1. All lanes get the result. `lanes` is a power of two; a team of one has the sequential order.
template <class Team, class V, class Term, class Op>
constexpr V reduce(Team& team, std::size_t n, V nothing, Term&& term, Op&& op) {
  constexpr int lanes = Team::lanes;
  team.each([&](int lane) {
    std::size_t i = static_cast<std::size_t>(lane);
    if (i >= n) return nothing;
    V running = term(i);
    for (i += lanes; i < n; i += lanes) running = op(running, term(i));
    return running;
  });
  for (int distance = lanes / 2; distance > 0; distance /= 2) team.fold(distance, op);
  return team.first();
}

// Sums of rows in the format itself, in the orders in which GPUs add. Only reduce() defines those orders.

enum class GpuSumOrder : std::uint8_t {
  sequential,  ///< one thread, the first term first
  warp,        ///< 32 lanes in the order of reduce(), the tree by shuffles
  block,       ///< 256 threads in the order of reduce(), the tree through shared memory
  atomic,      ///< atomicAdd of every term to a +0 in memory, in any order
};
inline constexpr std::array<Named<GpuSumOrder>, 4> sum_orders{{{"sequential", GpuSumOrder::sequential},
                                                               {"warp", GpuSumOrder::warp},
                                                               {"block", GpuSumOrder::block},
                                                               {"atomic", GpuSumOrder::atomic}}};
inline constexpr int warp_lanes = 32, block_lanes = 256;

/// The sum of the terms term(0), ..., term(n - 1) by o.add, in the order of the team; o.zero() where n is 0.
template <class Team, class O, class Term>
constexpr auto sum_by(Team& team, const O& o, std::size_t n, Term&& term) {
  return reduce(team, n, o.zero(), term, [&o](auto a, auto b) { return o.add(a, b); });
}

/// The same on the host. Atomic additions have one order there: one after the other.
template <class O, class Term>
constexpr auto sum_on_host(const O& o, GpuSumOrder order, std::size_t n, Term&& term) {
  using V = typename O::Value;
  switch (order) {
    case GpuSumOrder::sequential: {
      HostTeam<V, 1> thread;
      return sum_by(thread, o, n, term);
    }
    case GpuSumOrder::warp: {
      HostTeam<V, warp_lanes> warp;
      return sum_by(warp, o, n, term);
    }
    case GpuSumOrder::block: {
      HostTeam<V, block_lanes> block;
      return sum_by(block, o, n, term);
    }
    case GpuSumOrder::atomic: break;
  }
  V s = o.zero();
  for (std::size_t i = 0; i < n; ++i) s = o.add(s, term(i));
  return s;
}

}  // namespace halfulp::cuda
