// From code words to what the vector body takes, and which units it serves.
#pragma once

#include <halfulp/emulation/units/gemm.hpp>
#include <halfulp/emulation/units/panel.hpp>

#include <hwy/aligned_allocator.h>

#include <optional>
#include <vector>

namespace halfulp::units {

/// Which vector body serves a unit.
enum class Body { parts, powers, groups };

/// A vector body and its rule; nothing where only the interpreter serves.
struct VectorBody {
  Body body;
  PanelRule rule;
};
std::optional<VectorBody> vector_body(const MatrixUnit& unit);

/// Products in the order in which a unit's sums take them: position i of a row holds product order[i], or padding.
inline constexpr std::size_t padding = static_cast<std::size_t>(-1);
std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k);

/// Rows (or columns) of one operand taken apart for a body. A vector with a NaN, an infinity or a NaN scale is zeros, and
/// `special`.
struct Prepared {
  hwy::AlignedFreeUniquePtr<float[]> factor;           ///< significands of Parts, else values
  hwy::AlignedFreeUniquePtr<std::int32_t[]> exponent;  ///< of Parts and Groups
  hwy::AlignedFreeUniquePtr<float[]> power;            ///< of Powers; the scales of Groups
  std::vector<std::uint8_t> special;

  Parts parts(std::size_t at) const { return {factor.get() + at, exponent.get() + at}; }
  Powers powers(std::size_t at) const { return {factor.get() + at, power.get() + at}; }
  Groups groups(std::size_t at, std::size_t group) const { return {factor.get() + at, power.get() + at / group, exponent.get() + at / group}; }
};

/// Row i at [i * depth]: for A. Scales of groups at an index as much smaller as a group is long.
Prepared prepare_rows(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x, std::span<const std::size_t> order);
/// Column j of panel p = j / panel_columns at [p * panel_columns * depth + position * panel_columns + j % panel_columns]: for B.
Prepared prepare_columns(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x, std::span<const std::size_t> order);

}  // namespace halfulp::units
