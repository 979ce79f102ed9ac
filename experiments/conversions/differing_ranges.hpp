// Which numbers does a chain get wrong? All of them, found by their ends: rounding is monotone, so that each value of
// the target begins at one number of the source, directly and through the chain. What lies between the two beginnings
// differs, and nothing else does. So 2^64 inputs are counted exactly with a few conversions for each value of the
// target.
#pragma once

#include <halfulp/emulation/round_pack.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace halfulp::conversions {

/// Positions first <= x < end of a MagnitudeLine that differ, on which the two results lie on either side of the
/// boundary below `place`.
struct DifferingRange {
  uint128 first = 0, end = 0;
  std::uint64_t place = 0;
  bool operator==(const DifferingRange&) const = default;
};

struct DifferingRanges {
  std::vector<DifferingRange> ranges;  ///< ascending, disjoint
  uint128 normal_begin = 0,
          normal_end =
              0;  ///< positions whose direct result is a normal number, or the largest in place of greater ones

  /// Positions of a range whose direct result is below the normal numbers, and those where it is one of them.
  std::uint64_t below(const DifferingRange& range) const { return within(range, 0, normal_begin); }
  std::uint64_t normal(const DifferingRange& range) const { return within(range, normal_begin, normal_end); }

 private:
  static std::uint64_t within(const DifferingRange& range, uint128 first, uint128 end) {
    first = std::max(first, range.first), end = std::min(end, range.end);
    return first < end ? static_cast<std::uint64_t>(end - first) : 0;
  }
};

namespace detail {

/// The first position in [low, end] at which `holds` does, `end` if none below it; `holds` must stay true from there
/// on. Looked for from `guess` outwards, in steps that double.
template <class Holds>
uint128 first_where(uint128 low, uint128 end, uint128 guess, Holds&& holds) {
  uint128 high = end, step = 1;
  guess = std::clamp(guess, low, end);
  if (guess == end || holds(guess)) {
    high = guess;
    while (low < high) {
      const uint128 before = high - std::min(step, high - low);
      if (!holds(before)) {
        low = before + 1;
        break;
      }
      high = before, step *= 2;
    }
  } else {
    low = guess + 1;
    while (low < high) {
      const uint128 after = low + std::min(step, high - low) - 1;
      if (holds(after)) {
        high = after;
        break;
      }
      low = after + 1, step *= 2;
    }
  }
  while (low < high) {
    const uint128 middle = low + (high - low) / 2;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

}  // namespace detail

/// On `size` positions, two monotone functions from positions to places 0 ... last. `min_normal`, `max_finite`: places.
template <class Direct, class Chained>
DifferingRanges differences(uint128 size, std::uint64_t last, std::uint64_t min_normal, std::uint64_t max_finite,
                            Direct&& direct, Chained&& chained) {
  DifferingRanges found;
  found.normal_end = size;
  uint128 begins = 0, through = 0, gap = 0;    // of the place before
  __extension__ __int128 offsets[2] = {0, 0};  // through - begins, two places ago and one: ties alternate
  for (std::uint64_t p = 1; p <= last; ++p) {
    const uint128 here = detail::first_where(begins, size, begins + gap, [&](uint128 x) { return direct(x) >= p; });
    const auto guess = static_cast<__int128>(here) + offsets[p & 1];
    const uint128 there = detail::first_where(through, size, guess < 0 ? 0 : static_cast<uint128>(guess),
                                              [&](uint128 x) { return chained(x) >= p; });
    gap = here - begins, begins = here, through = there;
    offsets[p & 1] = static_cast<__int128>(there) - static_cast<__int128>(here);
    if (p == min_normal) found.normal_begin = here;
    if (p == max_finite + 1) found.normal_end = here;
    // What an earlier boundary already counted, where results are more than one place apart, is not counted again.
    const uint128 counted = found.ranges.empty() ? 0 : found.ranges.back().end;
    const uint128 first = std::max(std::min(here, there), counted), end = std::max(here, there);
    if (first < end) found.ranges.push_back({first, end, p});
    if (here == size && there == size) break;
  }
  return found;
}

}  // namespace halfulp::conversions
