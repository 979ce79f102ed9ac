// Cast profiles: what one specification, library or instruction set makes of a float in a narrower format, as data.
//
// All of them round; they part at the edges: where overflow begins and what it becomes, infinities, the sign and
// payload of NaN, -0, subnormals, a rounding to fp32 on the way. A rule states each of these for one target format.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Two code words of the target: for positive and for negative operands.
struct BySign {
  std::uint64_t positive = 0, negative = 0;  ///< one for each sign of the operand
  constexpr std::uint64_t operator[](bool sign) const {
    return sign ? negative : positive;
  }  ///< That of negative operands, or of positive ones.
  constexpr bool operator==(const BySign&) const = default;
};

/// What becomes of a NaN's fraction bits. Other than `dropped`, the target and the operand have the fields of IEEE 754.
enum class NanPayload : std::uint8_t {
  dropped,  ///< every NaN of a sign gives one code word
  quieted,  ///< the leading bits stay, the quiet bit is set (x86, IEEE 754-2019, 6.2.3)
  kept,     ///< the leading bits stay, signalling NaNs stay signalling; where none is left, the last bit is set (numpy)
};

/// Operands, by the magnitude of their fp32 code word, that a rule answers by exception.
struct CastException {
  std::uint32_t first = 0, last = 0;  ///< magnitudes, inclusive
  std::uint64_t result = 0;           ///< the code word that all of them become
};

/// The formats that a rule converts from, as bits.
using CastSources = std::uint8_t;
namespace source {
inline constexpr CastSources fp32 = 1, fp16 = 2, bf16 = 4, fp64 = 8;
inline constexpr CastSources all = fp32 | fp16 | bf16 | fp64;
}  // namespace source

/// What a rule is known from.
enum class CastEvidence : std::uint8_t {
  compared,     ///< the library was run, and the rule gives the same code words: tests/peers/casts says on which inputs
  rederived,    ///< the same with the library's algorithm, written anew from its source and run
  source_read,  ///< read in the library's source; it was not run
  specification,  ///< after the document that is cited; nothing was run
};

/// How one target format is reached.
struct CastRule {
  FloatFormat to;                                  ///< the target
  CastSources from = source::fp32;                 ///< formats that it converts from
  std::string_view function;                       ///< what is called
  BySign overflow;                                 ///< of finite operands beyond the range
  BySign infinity, nan;                            ///< of operands that are infinities or NaN
  BySign zero;                                     ///< of operands that are zero
  NanPayload payload = NanPayload::dropped;        ///< what becomes of a NaN's bits
  RoundingMode mode = RoundingMode::nearest_even;  ///< of numbers within the range
  /// Not 0: every finite operand of larger magnitude overflows. Otherwise overflow begins where the rounded operand
  /// exceeds the largest finite value.
  double overflow_above = 0;
  /// Operands of these formats are rounded to fp32 first, to nearest even as CPUs do (a NaN's payload kept, made
  /// quiet).
  CastSources through_fp32 = 0;
  bool flush_fp32 = false;    ///< that rounding makes zeros of what is tiny in fp32 (x86's FTZ)
  bool flush_inputs = false;  ///< subnormal operands count as zeros of their sign
  bool ignore_sign =
      false;  ///< negative operands go to a format without sign as their magnitude; otherwise they are `nan`
  std::span<const CastException> exceptions{};     ///< answered before any rule
  CastEvidence evidence = CastEvidence::compared;  ///< what the rule is known from
  std::string_view note{};                         ///< what else there is to know, a sentence
};

/// What a library, specification or CPU does: a rule for each target format.
struct Profile {
  std::string_view name, title;     ///< as on the command line, and in words
  std::string_view version;         ///< of what was run or read
  std::string_view citation;        ///< where it is written
  std::span<const CastRule> rules;  ///< one a target
  std::string_view elsewhere;       ///< what it does not offer, one line
};

/// All profiles, specifications first.
std::span<const Profile> profiles();
/// Throws std::invalid_argument in one line that names the nearest ones.
const Profile& find_profile(std::string_view name);

/// The rule of a profile for a pair of formats, or nullptr where it does not offer the conversion.
const CastRule* find_rule(const Profile& profile, const FloatFormat& from, const FloatFormat& to);
/// The same, throwing std::invalid_argument: "tensorflow does not convert fp32 to e2m1; accepted of fp32: e4m3, ...".
const CastRule& rule_for(const Profile& profile, const FloatFormat& from, const FloatFormat& to);

/// The bit of a source format; 0 for any other format.
CastSources source_bit(const FloatFormat& from);
/// The formats of such bits, fp32 first.
std::vector<FloatFormat> source_formats(CastSources sources);

/// The code word that a rule gives for one of `from`, a format it converts from. Upper bits of `code` are zero.
std::uint64_t apply(const CastRule& rule, const FloatFormat& from, std::uint64_t code);

/// The same over arrays: out[i] of in[i], on vectors where `from` is fp32. `In` is the word of `from` (2, 4 or 8
/// bytes), `Out` one no narrower than the target. Throws std::invalid_argument for spans of different lengths or words
/// too narrow.
template <class In, class Out>
void apply(const CastRule& rule, const FloatFormat& from, std::span<const In> in, std::span<Out> out);

// Instantiated for In = std::uint16_t, std::uint32_t, std::uint64_t and Out = std::uint8_t, std::uint16_t,
// std::uint32_t.

}  // namespace halfulp
