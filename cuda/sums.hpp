// Sums of rows in a format itself, in the orders in which GPUs add. Which order that is stands in teams.hpp alone.
#pragma once

#include <halfulp/cuda/teams.hpp>
#include <halfulp/emulation/rounding.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace halfulp::cuda {

enum class SumOrder : std::uint8_t {
  sequential,  ///< one thread, the first term first
  warp,        ///< 32 lanes in the order of reduce(), the tree by shuffles
  block,       ///< 256 threads in the order of reduce(), the tree through shared memory
  atomic,      ///< atomicAdd of every term to a +0 in memory, in whatever order they come
};
inline constexpr std::array<Named<SumOrder>, 4> sum_orders{{
    {"sequential", SumOrder::sequential}, {"warp", SumOrder::warp}, {"block", SumOrder::block}, {"atomic", SumOrder::atomic}}};
inline constexpr int warp_lanes = 32, block_lanes = 256;

/// The sum of the terms term(0), ..., term(n - 1) by o.add, in the order of the team; of none o.zero().
template <class Team, class O, class Term>
constexpr auto sum_by(Team& team, const O& o, std::size_t n, Term&& term) {
  return reduce(team, n, o.zero(), term, [&o](auto a, auto b) { return o.add(a, b); });
}

/// The same on the host. Atomic additions have one order there: one after the other.
template <class O, class Term>
constexpr auto sum_on_host(const O& o, SumOrder order, std::size_t n, Term&& term) {
  using V = typename O::Value;
  switch (order) {
    case SumOrder::sequential: {
      HostTeam<V, 1> thread;
      return sum_by(thread, o, n, term);
    }
    case SumOrder::warp: {
      HostTeam<V, warp_lanes> warp;
      return sum_by(warp, o, n, term);
    }
    case SumOrder::block: {
      HostTeam<V, block_lanes> block;
      return sum_by(block, o, n, term);
    }
    case SumOrder::atomic: break;
  }
  V s = o.zero();
  for (std::size_t i = 0; i < n; ++i) s = o.add(s, term(i));
  return s;
}

}  // namespace halfulp::cuda
