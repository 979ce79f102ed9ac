// What a block format is: elements of a few bits that share a scale, as plain data.
//
// Value of an element: element * scale (* tensor scale), or (element - zero point) * scale. How a scale follows from a
// block is part of the format here, because libraries that agree on the format disagree on that:
// emulation/block/scale.hpp.
#pragma once

#include <halfulp/formats/format.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace halfulp {

/// Which integers of b bits an integer element takes.
enum class IntegerRange : std::uint8_t {
  symmetric,        ///< -(2^(b-1) - 1) to 2^(b-1) - 1
  full,             ///< -2^(b-1) to 2^(b-1) - 1
  affine,           ///< the same, with a zero point
  affine_unsigned,  ///< 0 to 2^b - 1, with a zero point
};

/// One element: a float of at most 8 bits, or an integer times 2^-fraction_bits.
struct BlockElement {
  FloatFormat format = {};                       ///< where integer_bits is 0
  int integer_bits = 0;                          ///< 2 to 8 for integers
  int fraction_bits = 0;                         ///< of integers: 6 in MXINT8, whose values are -1.984375 to 1.984375
  IntegerRange range = IntegerRange::symmetric;  ///< of integers
  constexpr bool operator==(const BlockElement&) const = default;

  constexpr bool is_integer() const { return integer_bits != 0; }  ///< Whether elements are integers, not floats.
  /// Whether a block has a zero point.
  constexpr bool is_affine() const {
    return is_integer() && (range == IntegerRange::affine || range == IntegerRange::affine_unsigned);
  }
  constexpr int bits() const { return is_integer() ? integer_bits : format.storage_bits(); }  ///< Of a code word.
  /// The least and the largest integer.
  constexpr int least() const {
    if (range == IntegerRange::affine_unsigned) return 0;
    return -(1 << (integer_bits - 1)) + (range == IntegerRange::symmetric ? 1 : 0);
  }
  /// The largest integer.
  constexpr int most() const {
    return (1 << (range == IntegerRange::affine_unsigned ? integer_bits : integer_bits - 1)) - 1;
  }
  /// Integer of a code word: two's complement in the low `bits()` bits, or unsigned.
  constexpr int integer(unsigned code) const {
    const int value = static_cast<int>(code & ((1u << integer_bits) - 1));
    return range != IntegerRange::affine_unsigned && value > (1 << (integer_bits - 1)) - 1 ? value - (1 << integer_bits)
                                                                                           : value;
  }
  /// Value of a code word, before zero point and scale.
  constexpr double value(unsigned code) const {
    return is_integer() ? integer(code) * FloatFormat::power_of_two(-fraction_bits) : format.value(code);
  }
  /// What the largest magnitude of a block is scaled to: the largest finite value, or half of the integers' span, which
  /// for symmetric ones is the largest (torchao's quant_primitives, MappingType.SYMMETRIC).
  constexpr double target() const {
    return is_integer() ? (most() - least()) * 0.5 * FloatFormat::power_of_two(-fraction_bits)
                        : format.value(format.max_finite());
  }
  /// Exponent of the largest value, "emax_elem": floor(log2). MXINT8: 0.
  constexpr int emax() const {
    return is_integer() ? bit_length(static_cast<unsigned>(most())) - 1 - fraction_bits : format.emax();
  }
  /// Fraction bits of the largest value: what the rule `even` rounds to.
  constexpr int top_fraction_bits() const {
    return is_integer() ? bit_length(static_cast<unsigned>(most())) - 1 : format.fraction_bits;
  }
};

/// How the scale follows from the largest magnitude of a block, `amax`. Names as in torchao's ScaleCalculationMode.
enum class ScaleRule : std::uint8_t {
  amax,   ///< amax / target, rounded to the scale's format: DeepSeek-V3, NVFP4, per-tensor and per-channel FP8 and INT8
  floor,  ///< 2^(floor(log2 amax) - emax): OCP MX 1.0, section 6.3
  ceil,   ///< 2^(ceil(log2 amax) - emax)
  even,   ///< `floor` of amax rounded to the fraction bits of an element, ties away from zero
  rceil,  ///< the least power of two not below amax / target: NVIDIA cuBLAS and Transformer Engine,
          ///< DeepGEMM's UE8M0
};

/// How elements are divided by their scale, in fp32 with every operation rounded to nearest even; the result is rounded
/// to an element then. With powers of two all are the same.
enum class ScaleUse : std::uint8_t {
  divide,      ///< v / s; with a tensor scale t v / (s t): DeepSeek-V3's kernels, torchao's quantize_affine_float8
  reciprocal,  ///< v (1 / s); with a tensor scale v ((1 / t) / s): torchao's integers and NVFP4
  multiplier,  ///< v m for m = target / amax; 1 / m is the scale that is kept: Transformer Engine, torchao's float8
               ///< training
};

/// Elements of a few bits, and the scale that a block of them shares.
struct BlockFormat {
  BlockElement element;     ///< what elements are
  std::size_t rows = 1;     ///< of a block; 0: all rows
  std::size_t columns = 0;  ///< of a block; 0: all columns. 1 x 32, 128 x 128; 1 x 0 is a row, 0 x 0 the tensor
  FloatFormat scale;        ///< of the scales
  ScaleRule rule = ScaleRule::amax;  ///< how a scale follows from its block
  ScaleUse use = ScaleUse::divide;   ///< how elements are divided by it
  bool tensor_scale = false;         ///< scales are relative to one of the tensor, an fp32: NVFP4
  bool whole = false;                ///< blocks that the array's edge cuts short are refused
  constexpr bool operator==(const BlockFormat&) const = default;

  /// Elements that share a scale; 0 where the array decides.
  constexpr std::size_t elements() const { return rows * columns; }
  /// Bits of an element with its share of scale and zero point, where the block's size is known.
  constexpr double bits_per_element() const {
    const double shared = scale.storage_bits() + (element.is_affine() ? element.bits() : 0);
    return element.bits() + (elements() ? shared / static_cast<double>(elements()) : 0);
  }
};

// The block formats the project knows by name, and how others are described at run time.

/// One row of the catalogue.
struct NamedBlockFormat {
  std::string_view name;                    ///< as on the command line
  BlockFormat format;                       ///< what it is
  std::string_view title;                   ///< what it is, in a few words
  std::string_view citation;                ///< where it is defined, its scale rule included
  std::array<std::string_view, 3> aliases;  ///< other projects' names; unused ones are empty
};

/// All named block formats.
std::span<const NamedBlockFormat> block_catalogue();

/// The row of the catalogue with this very descriptor, or nullptr.
const NamedBlockFormat* find_named(const BlockFormat& format);

/// The block format of that name: a catalogue name or an alias (case does not matter), or a description
///
///   ELEMENT/SHAPE/SCALE[/RULE][/OPTION...]      e4m3/1x64/e8m0/rceil, int8/row/fp32/amax,
///   e2m1/1x16/e4m3/amax/tensor-scale
///
/// ELEMENT: a format of at most 8 bits, or intB[.F][full|affine] or uintBaffine with 2 to 8 bits, F of them a fraction.
/// SHAPE: RxC of at most 2^32 elements, tensor, row or column. SCALE: a format. RULE: amax floor ceil even rceil
/// (absent: floor for E8M0, else amax). OPTION: divide reciprocal multiplier, tensor-scale, whole. A catalogue name may
/// be followed by what is to be different: mxfp4/rceil, nvfp4/divide, fp8-1x128/1x64. Throws std::invalid_argument with
/// one line: what was wrong, the nearest names, what is accepted.
BlockFormat parse_block_format(std::string_view name);

/// Whether a name is meant for parse_block_format rather than parse_format: it is in the catalogue of blocks or has a
/// slash.
bool names_block_format(std::string_view name);

/// What keeps a descriptor from being a block format that the project computes with, in a few words; empty if nothing
/// does.
std::string defect(const BlockFormat& format);

/// The shortest name that parse_block_format reads back as this descriptor, which has no defect.
std::string format_name(const BlockFormat& format);
/// The full description, also of formats in the catalogue.
std::string description(const BlockFormat& format);

/// "e4m3", "int8.6", "uint4affine".
std::string element_name(const BlockElement& element);
/// "1x32", "row", "tensor".
std::string shape_name(const BlockFormat& format);

/// Their names.
inline constexpr std::array<std::pair<std::string_view, ScaleRule>, 5> scale_rules{{{"amax", ScaleRule::amax},
                                                                                    {"floor", ScaleRule::floor},
                                                                                    {"ceil", ScaleRule::ceil},
                                                                                    {"even", ScaleRule::even},
                                                                                    {"rceil", ScaleRule::rceil}}};
/// Their names.
inline constexpr std::array<std::pair<std::string_view, ScaleUse>, 3> scale_uses{
    {{"divide", ScaleUse::divide}, {"reciprocal", ScaleUse::reciprocal}, {"multiplier", ScaleUse::multiplier}}};

/// As on the command line.
constexpr std::string_view name_of(ScaleRule rule) { return scale_rules[static_cast<std::size_t>(rule)].first; }
/// As on the command line.
constexpr std::string_view name_of(ScaleUse use) { return scale_uses[static_cast<std::size_t>(use)].first; }

}  // namespace halfulp
