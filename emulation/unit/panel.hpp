// Fused sums on vectors: one panel of columns at a time, from operands taken apart into significands and exponents.
#pragma once

#include <halfulp/emulation/unit/gemm.hpp>

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace halfulp::units {

/// Columns of a panel: one vector of floats with AVX-512, two with AVX2.
inline constexpr std::size_t panel_columns = 16;
/// Rows of outputs that share the loads of a panel.
inline constexpr std::size_t panel_rows = 4;

/// The exponent of a zero, far below every other (sums of two included).
inline constexpr std::int32_t zero_exponent = -(1 << 12);

/// A fused sum for the vector kernels: truncation to 2^(emax - F), one rounding at the end.
struct PanelRule {
  std::size_t length;  ///< products of one sum
  std::size_t group;   ///< products whose integers have a sum of 32 bits, or that share a scale; divides length
  std::int32_t alignment_bits;   ///< at most 28, of groups 38
  std::int32_t least_exponent;   ///< of emax; below the exponents of all non-zero terms if the unit has none
  std::int32_t addend_emin;      ///< the smallest exponent of an addend: that of its subnormals
  std::int32_t kept_bits;        ///< fraction bits of the result
  std::int32_t least_quantum;    ///< log2 of the smallest subnormal of what is kept
  double infinity_from;          ///< results of this magnitude and above are Inf
  float min_normal, max_finite;  ///< of what is kept
  bool to_nearest;               ///< of the result; else toward zero
};

/// (-1)^sign * significand * 2^exponent with a significand in (0, 2). Subnormals have the format's smallest exponent. A
/// zero has the significand 0 and the exponent zero_exponent.
struct Parts {
  const float* significand;
  const std::int32_t* exponent;
};

/// The same for formats whose products are normal floats: the value, and 2^exponent (0 for zeros).
struct Powers {
  const float* value;
  const float* power;
};

/// Operands whose products are added in groups before they are scaled: values, and for each group the scale's
/// significand and exponent.
struct Groups {
  const float* value;
  const float* scale;
  const std::int32_t* exponent;
};
inline constexpr std::size_t max_groups = 4;  ///< of a sum

/// d[r * stride + j] += the first `depth` products of `rows` rows (1 to panel_rows, a_stride apart) and the columns of
/// a panel (panel_columns words per product), one sum after the other. depth is a multiple of rule.length. d holds
/// values of the accumulator's format; Inf and NaN stay unchanged. All operands are finite.
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Parts a, Parts b,
                 float* d, std::size_t stride);
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Powers a, Powers b,
                 float* d, std::size_t stride);
/// The same for groups of rule.group products; results are truncated.
void grouped_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, std::size_t a_stride, Groups a, Groups b,
                   float* d, std::size_t stride);

// Operands for the kernels, and the units that these serve.

/// Which operands the kernel of a unit takes.
enum class Body { parts, powers, groups };

/// A unit's kernel and its rule; none where only the interpreter serves.
struct VectorBody {
  Body body;
  PanelRule rule;
};
std::optional<VectorBody> vector_body(const MatrixUnit& unit);

/// The order in which a unit's sums take products: position i of a row holds product order[i], or padding.
inline constexpr std::size_t padding = static_cast<std::size_t>(-1);
std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k);

/// Rows (or columns) of one operand, taken apart. A vector with a NaN, an infinity or a NaN scale is marked `special`
/// and filled with zeros.
struct Prepared {
  hwy::AlignedFreeUniquePtr<float[]> factor;           ///< significands of Parts, else values
  hwy::AlignedFreeUniquePtr<std::int32_t[]> exponent;  ///< of Parts and Groups
  hwy::AlignedFreeUniquePtr<float[]> power;            ///< of Powers; the scales of Groups
  std::vector<std::uint8_t> special;

  Parts parts(std::size_t at) const { return {factor.get() + at, exponent.get() + at}; }
  Powers powers(std::size_t at) const { return {factor.get() + at, power.get() + at}; }
  Groups groups(std::size_t at, std::size_t group) const {
    return {factor.get() + at, power.get() + at / group, exponent.get() + at / group};
  }
};

/// Rows of A: row i begins at [i * depth]. Scales of groups have that index divided by the group's length.
Prepared prepare_rows(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                      std::span<const std::size_t> order);
/// Columns of B: column j of panel p = j / panel_columns lies at [p * panel_columns * depth + position * panel_columns
/// + j % panel_columns].
Prepared prepare_columns(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                         std::span<const std::size_t> order);

}  // namespace halfulp::units
