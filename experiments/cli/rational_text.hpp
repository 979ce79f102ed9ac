// Exact values of code words, and decimal and binary text of rationals that need not end.
#pragma once

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

/// The first `digits` significant decimal digits; "..." after them if there are more. Scientific notation for exponents
/// where plain digits would be hard to read ("0.1", "65520", "0.333...", "-1.25e-9").
std::string decimal_text(const Rational& x, int digits);
/// The nearest decimal of that many significant digits, without "...".
std::string rounded(const Rational& x, int digits);

/// |x| / 2^exponent in binary: the integer part, a point, `kept` digits, "|", and up to `dropped` more digits, with "..."
/// if that is not all; "1.100|1100..." for 1/10, exponent -4.
std::string binary_text(const Rational& x, int exponent, int kept, int dropped);

}  // namespace halfulp::cli
