// Which examples a step sees: choices that are functions of (seed, stream, index) alone.
#pragma once

#include <halfulp/emulation/random.hpp>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace halfulp {

/// A number below `count`, each as likely as any other to count / 2^64.
inline std::uint64_t random_below(std::uint64_t count, std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(random_word(seed, stream, index)) * count >> 64);
}

/// 0 to count - 1 in the order of an epoch: Fisher and Yates's shuffle with the numbers of (seed, stream), from the last place down.
inline std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random_below(i, seed, stream, i)]);
  return order;
}

}  // namespace halfulp
