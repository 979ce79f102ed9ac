// The block formats the project knows by name, and how others are described at run time.
#pragma once

#include <halfulp/formats/block.hpp>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace halfulp {

/// One row of the catalogue.
struct NamedBlockFormat {
  std::string_view name;  ///< as on the command line
  BlockFormat format;  ///< what it is
  std::string_view title;     ///< what it is, in a few words
  std::string_view citation;  ///< where it is defined, its scale rule included
  std::array<std::string_view, 3> aliases;  ///< other projects' names; unused ones are empty
};

/// All named block formats.
std::span<const NamedBlockFormat> block_catalogue();

/// The row of the catalogue with this very descriptor, or nullptr.
const NamedBlockFormat* find_named(const BlockFormat& format);

/// The block format of that name: a catalogue name or an alias (case does not matter), or a description
///
///   ELEMENT/SHAPE/SCALE[/RULE][/OPTION...]      e4m3/1x64/e8m0/rceil, int8/row/fp32/amax, e2m1/1x16/e4m3/amax/tensor-scale
///
/// ELEMENT: a format of at most 8 bits, or intB[.F][full|affine] or uintBaffine with 2 to 8 bits, F of them a fraction.
/// SHAPE: RxC of at most 2^32 elements, tensor, row or column. SCALE: a format. RULE: amax floor ceil even rceil (absent: floor for E8M0, else amax).
/// OPTION: divide reciprocal multiplier, tensor-scale, whole. A catalogue name may be followed by what is to be different:
/// mxfp4/rceil, nvfp4/divide, fp8-1x128/1x64. Throws std::invalid_argument with one line: what was wrong, the nearest names,
/// what is accepted.
BlockFormat parse_block_format(std::string_view name);

/// Whether a name is meant for parse_block_format rather than parse_format: it is in the catalogue of blocks or has a slash.
bool names_block_format(std::string_view name);

/// What keeps a descriptor from being a block format that the project computes with, in a few words; empty if nothing does.
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
    {"floor", ScaleRule::floor}, {"ceil", ScaleRule::ceil}, {"even", ScaleRule::even}, {"rceil", ScaleRule::rceil}}};
/// Their names.
inline constexpr std::array<std::pair<std::string_view, ScaleUse>, 3> scale_uses{{{"divide", ScaleUse::divide},
    {"reciprocal", ScaleUse::reciprocal}, {"multiplier", ScaleUse::multiplier}}};

/// As on the command line.
constexpr std::string_view name_of(ScaleRule rule) { return scale_rules[static_cast<std::size_t>(rule)].first; }
/// As on the command line.
constexpr std::string_view name_of(ScaleUse use) { return scale_uses[static_cast<std::size_t>(use)].first; }

}  // namespace halfulp
