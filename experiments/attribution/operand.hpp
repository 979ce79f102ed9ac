// One factor of a product in all the states that attribution asks about: scaled or not, rounded or not.
//
// An element v is q s: a number q that is multiplied, and a scale s that its block shares. With the switches
//
//   scaling off            s = amax / target as a rational number, q = v / s exactly
//   scaling on             s by the format's rule, in the scale's format; q = v / s as the format computes it: v becomes an
//                          fp32 number, which is divided (or multiplied by the reciprocal) in fp32
//   input on               q is rounded to an element, which saturates
//   input off              q stays as it is, and may lie beyond the largest element
//
// amax is the largest magnitude of a block of fp32 numbers (formats/block.hpp), target what it is scaled to: 448 for E4M3. A
// format without scales has s = 1. With two levels of scales (NVFP4) s is the block's, relative to the tensor's, which remains
// as it is: whatever it is, the block's real scale makes up for it.
#pragma once

#include <halfulp/emulation/block/block.hpp>

#include <optional>
#include <string>
#include <vector>

namespace halfulp::attribution {

/// How an operand is stored: a block format, or a format without scales.
struct OperandFormat {
  std::string name;
  FloatFormat grid;                  ///< every element is one of its numbers
  std::optional<BlockFormat> block;  ///< absent: no scale

  bool integers() const { return block && block->element.is_integer(); }
};

/// Throws std::invalid_argument in one line: names that are unknown, and block formats with a zero point or scales too precise.
OperandFormat parse_operand_format(const std::string& name);

/// rows x columns; products are taken along the columns.
struct Operand {
  OperandFormat format;
  std::size_t rows = 0, columns = 0;
  std::vector<double> exact;       ///< v
  std::vector<double> scaled;      ///< q of scaling on, input off
  std::vector<double> rounded[2];  ///< q of input on, by scaling off and on
  BlockGrid grid;                  ///< where the scales are; one block where there are none
  std::vector<double> amax;        ///< of each block; 1 where there are no scales
  std::vector<double> scale;       ///< of each block, without the tensor's
  double target = 1, tensor = 1;
  std::optional<BlockArray> array; ///< the operand in its block format: everything on

  bool has_scales() const { return format.block.has_value(); }
  std::size_t size() const { return rows * columns; }
  std::size_t block(std::size_t index) const { return grid.index(index / columns, index % columns); }
  /// The odd factor of target, and target / odd factor.
  std::int64_t odd() const;
  double even() const { return target / static_cast<double>(odd()); }
};

/// `values` by rows. Deterministic modes only. Throws std::invalid_argument for values beyond the range of fp32 where there are scales.
Operand make_operand(const OperandFormat& format, const Rounding& rounding, std::vector<double> values, std::size_t rows, std::size_t columns);

/// v / s of scaling off, rounded to an element: exactly, in one rounding.
double ideal_element(const OperandFormat& format, const Rounding& rounding, double v, double target, double amax);

/// The operand's values times its odd factor where scaling is off and input on, else as they are: each is a double exactly.
std::vector<double> values(const Operand& operand, bool scaling, bool input);

}  // namespace halfulp::attribution
