// Exact values of code words, and decimal and binary text of rationals that need not end.
#pragma once

#include <halfulp/commands/terminal.hpp>
#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>

#include <boost/multiprecision/cpp_int.hpp>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

using Rational = boost::multiprecision::cpp_rational;

/// 2^e.
Rational power_of_two(int e);
/// The value of a finite code, exactly.
Rational exact_value(const FloatFormat& f, std::uint64_t code);
/// e with 2^e <= |x| < 2^(e + 1). Precondition: x != 0.
int binary_exponent(const Rational& x);
/// x = 2^e for some e: that e in `e`.
bool is_power_of_two(const Rational& x, int& e);

/// The first `digits` significant decimal digits; "..." after them if there are more. Scientific notation for exponents
/// where plain digits would be hard to read ("0.1", "65520", "0.333...", "-1.25e-9").
std::string decimal_text(const Rational& x, int digits);
/// The nearest decimal of that many significant digits, without "...".
std::string rounded(const Rational& x, int digits);

/// |x| / 2^exponent in binary: the integer part, a point, `kept` digits, "|", and up to `dropped` more digits, with
/// "..." if that is not all; "1.100|1100..." for 1/10, exponent -4.
std::string binary_text(const Rational& x, int exponent, int kept, int dropped);

// Everything `halfulp explain` knows about one number in one format, before it is drawn.

/// One result of one rounding mode. Stochastic rounding may have several; their probabilities are exact.
struct ModeOutcome {
  RoundingMode mode;
  Rounded result;
  Rational probability = 1;
  std::optional<Rational> error;  ///< result - asked, where both are finite
  std::string reason;             ///< why, in a dozen characters: "nearer", "tie: even", "+inf is up"
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
  bool exact = false;             ///< the asked value is a value of the format
  Rational ulp;                   ///< distance of the format's values around the asked one; at most that below max
  /// The nearest values on both sides; of a value of the format the ones before and after it.
  std::optional<Neighbour> below, above;
  std::vector<ModeOutcome> outcomes;  ///< of every mode, in the order of `rounding_modes`

  /// Every mode gives the same code and flags.
  bool unanimous() const;
  /// Code minus asked value; none where either is not finite.
  std::optional<Rational> error() const;
  /// Why a mode gives what it gives, by the asked value's place between its neighbours.
  std::string reason(const ModeOutcome& outcome) const;
};

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
