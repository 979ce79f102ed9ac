// The formats the project knows by name: one row each.
#pragma once

#include <halfulp/formats/format.hpp>

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace halfulp {

// clang-format off
inline constexpr FloatFormat fp16       {5, 10,    15, NonFinite::ieee};                 ///< IEEE half precision
inline constexpr FloatFormat bf16       {8,  7,   127, NonFinite::ieee};                 ///< bfloat16
inline constexpr FloatFormat tf32       {8, 10,   127, NonFinite::ieee};                 ///< NVIDIA's TensorFloat-32, 19 bits
inline constexpr FloatFormat fp32       {8, 23,   127, NonFinite::ieee};                 ///< IEEE single precision
inline constexpr FloatFormat fp64       {11, 52, 1023, NonFinite::ieee};                 ///< IEEE double precision
inline constexpr FloatFormat e4m3       {4,  3,     7, NonFinite::nan_all_ones};         ///< OCP FP8 E4M3, no infinity
inline constexpr FloatFormat e5m2       {5,  2,    15, NonFinite::ieee};                 ///< OCP FP8 E5M2
inline constexpr FloatFormat e4m3fnuz   {4,  3,     8, NonFinite::nan_negative_zero};    ///< FP8 E4M3, one NaN, no -0
inline constexpr FloatFormat e5m2fnuz   {5,  2,    16, NonFinite::nan_negative_zero};    ///< FP8 E5M2, one NaN, no -0
inline constexpr FloatFormat e4m3b11fnuz{4,  3,    11, NonFinite::nan_negative_zero};    ///< FP8 E4M3 with bias 11
inline constexpr FloatFormat e4m3ieee   {4,  3,     7, NonFinite::ieee};                 ///< FP8 E4M3, IEEE-like
inline constexpr FloatFormat e3m4       {3,  4,     3, NonFinite::ieee};                 ///< FP8 E3M4, IEEE-like
inline constexpr FloatFormat e3m2       {3,  2,     3, NonFinite::none};                 ///< OCP MX FP6 E3M2, finite only
inline constexpr FloatFormat e2m3       {2,  3,     1, NonFinite::none};                 ///< OCP MX FP6 E2M3, finite only
inline constexpr FloatFormat e2m1       {2,  1,     1, NonFinite::none};                 ///< OCP MX FP4 E2M1, finite only
inline constexpr FloatFormat e8m0       {8,  0,   127, NonFinite::nan_all_ones, false, false}; ///< OCP MX scale, powers of two
inline constexpr FloatFormat p3109k8p3  {5,  2,    16, NonFinite::p3109};                ///< IEEE P3109 binary8 with 3 bits of precision
inline constexpr FloatFormat p3109k8p4  {4,  3,     8, NonFinite::p3109};                ///< IEEE P3109 binary8 with 4 bits of precision
// clang-format on

/// One row of the catalogue.
struct NamedFormat {
  std::string_view name;                    ///< as on the command line
  FloatFormat format;                       ///< its descriptor
  std::string_view title;                   ///< what it is, in a few words
  std::string_view citation;                ///< the document that defines it
  std::array<std::string_view, 5> aliases;  ///< other projects' names; unused ones are empty
};

/// All named formats, widest use first.
std::span<const NamedFormat> catalogue();

/// The row of the catalogue with this very descriptor, or nullptr.
const NamedFormat* find_named(const FloatFormat& format);

/// The format of that name: a catalogue name, an alias (case does not matter), or
/// `eXmY[bBIAS][ieee|fn|fnuz|p3109|finite]` with 1..11 exponent and 0..52 fraction bits.
/// Throws std::invalid_argument with one line: what was wrong, the nearest names, what is accepted.
FloatFormat parse_format(std::string_view name);
/// The same, or none.
std::optional<FloatFormat> find_format(std::string_view name);

/// What keeps a descriptor from being a format that the project computes with, as in "has 0 exponent bits, not 1 to
/// 11"; empty if nothing does. A FloatFormat{} is none.
std::string defect(const FloatFormat& format);

/// The shortest name that `parse_format` reads back as this descriptor, which has no defect.
std::string format_name(const FloatFormat& format);

}  // namespace halfulp
