// From code words to what the vector body takes, and which units it serves.
#pragma once

#include <halfulp/emulation/units/gemm.hpp>
#include <halfulp/emulation/units/panel.hpp>

#include <hwy/aligned_allocator.h>

#include <optional>
#include <vector>

namespace halfulp::units {

/// The rule of the vector body for a unit; nothing where only the interpreter serves.
std::optional<PanelRule> panel_rule(const MatrixUnit& unit);

/// Products in the order in which a unit's sums take them: position i of a row holds product order[i], or padding.
inline constexpr std::size_t padding = static_cast<std::size_t>(-1);
std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k);

/// Whether products of a unit stay among the normal floats, so that Powers serve instead of Parts.
bool takes_powers(const MatrixUnit& unit);

/// Rows (or columns) of one operand taken apart, as Parts or as Powers. A vector with a NaN, an infinity or a NaN scale is
/// zeros, and `special`.
struct Prepared {
  hwy::AlignedFreeUniquePtr<float[]> factor;           ///< significands, or values
  hwy::AlignedFreeUniquePtr<std::int32_t[]> exponent;  ///< of Parts
  hwy::AlignedFreeUniquePtr<float[]> power;            ///< of Powers
  std::vector<std::uint8_t> special;

  Parts parts(std::size_t at) const { return {factor.get() + at, exponent.get() + at}; }
  Powers powers(std::size_t at) const { return {factor.get() + at, power.get() + at}; }
};

/// Row i at [i * depth]: for A.
Prepared prepare_rows(const MatrixUnit& unit, const GemmOperands& x, std::span<const std::size_t> order);
/// Column j of panel p = j / panel_columns at [p * panel_columns * depth + position * panel_columns + j % panel_columns]: for B.
Prepared prepare_columns(const MatrixUnit& unit, const GemmOperands& x, std::span<const std::size_t> order);

}  // namespace halfulp::units
