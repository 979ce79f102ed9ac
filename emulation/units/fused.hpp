// What the rules share: the order of products, a fused sum of terms, the NaN of a unit.
#pragma once

#include <halfulp/emulation/units/rules.hpp>
#include <halfulp/emulation/units/terms.hpp>

namespace halfulp::units {

/// Products that MXFP4 and NVFP4 add before they are scaled.
inline constexpr int group_length = 16;

/// Which product of a step is the i-th of its s-th sum. A step has as many sums as unit.sum.length goes into it.
inline std::size_t product_of(const MatrixUnit& unit, std::size_t sums, std::size_t s, std::size_t i) {
  if (unit.rule == &rules::halves_apart) return i / 2 * 4 + 2 * s + i % 2;  // k mod 4 in {0, 1}, then {2, 3}
  const std::size_t j = unit.sum.descending ? sums - 1 - s : s;
  return unit.sum.grouping == Grouping::strided ? i * sums + j : j * static_cast<std::size_t>(unit.sum.length) + i;
}

/// A NaN of whatever origin as the unit's own.
inline std::uint64_t with_nan(const MatrixUnit& unit, std::uint64_t d) { return unit.accumulator.is_nan(d) ? unit.sum.nan : d; }

/// The sum of terms by unit.sum, as a word of the accumulator. Where a term is NaN or Inf, that.
std::uint64_t fused_sum(const MatrixUnit& unit, std::span<const Term> terms);

/// The word of a NaN or an infinity. Precondition: special.kind is one of these.
std::uint64_t special_result(const MatrixUnit& unit, const Special& special);

}  // namespace halfulp::units
