// Fused sums on vectors: one panel of columns at a time, from operands taken apart into significands and exponents.
#pragma once

#include <halfulp/emulation/array/scratch.hpp>
#include <halfulp/emulation/unit/gemm.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace halfulp::units {

/// What computes a unit's sums.
enum class Body {
  terms,     ///< fused_panel
  groups,    ///< grouped_panel
  chain,     ///< fma(a, b, d); with rule.apart d + a chain from +0 of rule.length products
  tree,      ///< d + a binary tree of 2 or 4 products, every result flushed
  exact,     ///< d + all products, rounded once to nearest
  products,  ///< products cut and added in spans, then d; rules::sum_then_addend and even_odd_then_addend
};

/// Columns of a panel: one vector of floats with AVX-512, two with AVX2.
inline constexpr std::size_t panel_columns = 16;
/// Rows that are computed together, and those that share the loads of a panel.
inline constexpr std::size_t rows_together = 4, panel_rows = 16;

/// A fused sum for the vector kernels: truncation to 2^(emax - F), one rounding at the end.
struct PanelRule {
  std::size_t length;                 ///< products of one sum
  std::size_t span;                   ///< products that share their scales; all of a sum if there are none
  std::size_t run;                    ///< products whose integers have a sum of 32 bits; divides span
  std::int32_t alignment_bits;        ///< at most 28, of groups 38
  std::int32_t least_exponent;        ///< of emax; below the exponents of all non-zero terms if the unit has none
  std::int32_t addend_emin;           ///< the smallest exponent of an addend: that of its subnormals
  std::int32_t kept_bits;             ///< fraction bits of the result
  std::int32_t kept_mask;             ///< of the bits of a float: those that are kept
  std::int32_t least_quantum;         ///< log2 of the smallest subnormal of what is kept
  double infinity_from;               ///< results of this magnitude and above are Inf
  float min_normal, max_finite;       ///< of what is kept
  bool narrow;                        ///< what is kept has a smaller range than fp32
  bool to_nearest;                    ///< of the result; else toward zero
  bool scaled;                        ///< products have scales
  std::int32_t quick_from, quick_to;  ///< values of emax for which floats and 32-bit integers serve
  std::int32_t quick_least;      ///< the least exponent if it is among these (of unscaled products), else that of zeros
  bool apart;                    ///< pairs of sums that start from 0 are added to d, to nearest in the following format
  std::int32_t addend_bits;      ///< its fraction bits
  float addend_min, addend_max;  ///< its smallest normal and largest number
};

/// Exponents of products are sums of two keys, integers of 16 bits. The key of a zero is so far below the others,
/// scales included, that such a sum is below no_exponent.
inline constexpr std::int32_t zero_key = -(1 << 12), no_exponent = -(1 << 11);

/// The keys of two products of a span, the first one's in the lower half. An odd last product has the key of a zero
/// beside it.
using KeyPair = std::uint32_t;
constexpr std::size_t pairs_of(std::size_t span) { return (span + 1) / 2; }

/// Part of an array, or of none.
template <class T>
constexpr T* moved(T* from, std::size_t by) {
  return from ? from + by : nullptr;
}

/// Values, their exponents (of subnormals the format's smallest) as keys, and the exponents of the scales of each span.
struct Terms {
  const float* value;
  const KeyPair* pair;        ///< for kernels that need them
  const std::int32_t* scale;  ///< if there are any
};

/// Operands whose products are added in groups before they are scaled: values, and for each group the scale's
/// significand and exponent.
struct Groups {
  const float* value;
  const float* scale;
  const std::int32_t* exponent;
};
inline constexpr std::size_t max_groups = 4;  ///< of a sum

/// d[r * panel_columns + j] += the products of `rows` rows (rounded up to a multiple of rows_together, at most
/// panel_rows) and the columns of a panel, one sum after the other. depth is a multiple of rule.length. d holds values
/// of the accumulator's format; Inf and NaN stay unchanged. All operands are finite. The environment is the default
/// one.
void fused_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d);
/// The same by the rules of the other bodies, for fp32. Outputs that a kernel cannot compute become NaN.
void stepped_panel(Body body, const PanelRule& rule, std::size_t rows, std::size_t depth, Terms a, Terms b, float* d);
/// Whether Body::chain runs on this CPU.
bool has_fma();
/// The same for groups of rule.span products; results are truncated.
void grouped_panel(const PanelRule& rule, std::size_t rows, std::size_t depth, Groups a, Groups b, float* d);

// Operands for the kernels, and the units that these serve.

/// A unit's kernel and its rule; none where only the interpreter serves.
struct VectorBody {
  Body body;
  PanelRule rule;
};
std::optional<VectorBody> vector_body(const MatrixUnit& unit);

/// The order in which a unit's sums take products: position i of a row holds product order[i], or padding.
inline constexpr std::size_t padding = static_cast<std::size_t>(-1);
std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k);

/// Rows (or columns) of one operand, taken apart: panels of `width` vectors side by side, rows_together rows or
/// panel_columns columns. The values of vector v begin at [v / width * width * depth + v % width], `width` apart; pairs
/// of keys and scales lie in the same way, with their number instead of depth. Missing vectors are zeros. A vector with
/// a NaN, an infinity or a NaN scale is marked `special` and filled with zeros.
struct Prepared {
  array::Scratch<float> value;
  array::Scratch<KeyPair> pair;        ///< of Terms
  array::Scratch<float> scale;         ///< significands of the scales of Groups
  array::Scratch<std::int32_t> power;  ///< exponents of scales
  std::vector<std::uint8_t> special;

  /// From a value on, which is the first of a panel.
  Terms terms(std::size_t at, std::size_t span) const {
    return {value.data() + at, moved(pair.data(), at / span * pairs_of(span)), moved(power.data(), at / span)};
  }
  Groups groups(std::size_t at, std::size_t span) const {
    return {value.data() + at, scale.data() + at / span, power.data() + at / span};
  }
};

Prepared prepare_rows(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                      std::span<const std::size_t> order);
Prepared prepare_columns(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                         std::span<const std::size_t> order);

}  // namespace halfulp::units
