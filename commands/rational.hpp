// Exact numbers: values of code words, what they become in a format, and their decimal and binary text.
#pragma once

#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/format.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <string>

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

/// The value of a number as written, which is zero or finite. Throws std::invalid_argument in one line for more than
/// 10,000 digits and for sizes beyond 1e+-4800.
Rational literal_value(const Literal& number, std::string_view text);
/// What an exact number becomes in a format: rounded once, correctly. A zero is positive.
Rounded round_exact(const FloatFormat& f, const Rounding& rounding, const Rational& x, std::uint64_t random = 0);
/// The distance of the format's values around x; beyond the largest one, of those below it.
Rational ulp_at(const FloatFormat& f, const Rational& x);

/// "1/10", "-3".
std::string fraction_text(const Rational& x);
/// The first `digits` significant decimal digits; "..." after them if there are more. Scientific notation for exponents
/// where plain digits would be hard to read ("0.1", "65520", "0.333...", "-1.25e-9").
std::string decimal_text(const Rational& x, int digits);
/// The nearest number of that many significant digits; a tie goes away from zero.
Rational rounded_to(const Rational& x, int digits);
/// The same as text, without "...".
std::string rounded(const Rational& x, int digits);

/// A number of units in the last place: `digits` significant digits, or all before the point, where these are at most
/// seven: -1024, not -1020.
std::string ulps_text(const Rational& x, int digits);

/// |x| / 2^exponent in binary: the integer part, a point, `kept` digits, "|", and up to `dropped` more digits, with
/// "..." if that is not all; "1.100|1100..." for 1/10, exponent -4.
std::string binary_text(const Rational& x, int exponent, int kept, int dropped);

}  // namespace halfulp::cli
