// Everything `halfulp explain` knows about one number in one format, before it is drawn.
#pragma once

#include <halfulp/commands/rational.hpp>
#include <halfulp/commands/terminal.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// One result of one rounding mode. Stochastic rounding may have several; their probabilities are exact.
struct ModeOutcome {
  RoundingMode mode;
  Rounded result;
  Rational probability = 1;
  std::optional<Rational> error;  ///< result - asked, where both are finite
  std::string reason;             ///< why, in a few words: "nearer", "tie: even", "tie, beyond 65504", "+inf is up"
};

/// A value next to the asked one on the format's number line.
struct Neighbour {
  std::optional<std::uint64_t> code;  ///< none beyond the largest finite value: the next step of the same size
  Rational value;
};

struct Explanation {
  FloatFormat format;
  Rounding rounding;
  std::string asked;              ///< as written
  bool by_code = false;           ///< asked for as 0xBITS
  bool is_nan = false;            ///< asked for a NaN
  std::optional<Rational> value;  ///< asked for, exactly; none for infinities and NaN
  std::uint64_t code = 0;         ///< what the asked value becomes under `rounding`, or the asked bits themselves
  bool exact = false;             ///< the asked value is a value of the format, which flushing may replace all the same
  Rational ulp;                   ///< distance of the format's values around the asked one; at most that below max
  /// The nearest values on both sides; of a value of the format the ones before and after it.
  std::optional<Neighbour> below, above;
  std::vector<ModeOutcome> outcomes;  ///< of every mode, in the order of `rounding_modes`

  /// Every mode gives the same code and flags.
  bool unanimous() const;
  /// Whether `code` has the asked value.
  bool is_kept() const;
  /// Code minus asked value; none where either is not finite.
  std::optional<Rational> error() const;
  /// Why a mode gives what it gives, by the asked value's place between its neighbours.
  std::string reason(const ModeOutcome& outcome) const;
};

/// "0x3C00": hexadecimal without point and exponent is a code word where numbers are read, not a number.
bool is_code_word(std::string_view text);

/// Takes `text`, a number as `parse` reads it or a code word 0xBITS, apart. `random` decides a stochastic `rounding`.
/// Throws std::invalid_argument in one line for text that is neither, code words too wide and numbers too far away.
Explanation explain(const FloatFormat& format, const Rounding& rounding, std::string_view text, std::uint64_t random);

/// "normal", "subnormal", "zero", "infinity", "NaN", "signalling NaN".
std::string_view class_name(const FloatFormat& format, std::uint64_t code);
/// "inexact underflow"; "none".
std::string flag_names(Flags flags);
/// "IEEE half precision" or "6 exponent bits, 9 fraction bits, bias 31, finite only": what a format is, in a few words.
std::string format_title(const FloatFormat& format);

nlohmann::ordered_json to_json(const Explanation& e);

// An explanation drawn for people.

/// At most 80 columns wide for formats of up to 16 bits, and for most numbers in wider ones.
std::string render(const Explanation& explanation, const Style& style);

}  // namespace halfulp::cli
