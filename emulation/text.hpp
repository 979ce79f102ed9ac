// Decimal and hexadecimal text of values: parsing rounds correctly, printing round-trips.
#pragma once

#include <halfulp/emulation/operand.hpp>

#include <string>
#include <string_view>

namespace halfulp {

/// A number as written, before any rounding: (-1)^sign * digits * base()^exponent where finite.
struct Literal {
  Kind kind = Kind::zero;                            ///< zero, a finite number, infinity or NaN
  bool sign = false;                                 ///< negative
  bool hexadecimal = false;                          ///< written as 0x1.8p-3
  std::string digits;                                ///< decimal or hexadecimal, without point and leading zeros
  long long exponent = 0;                            ///< of 10, or of 2 in hexadecimal
  int base() const { return hexadecimal ? 2 : 10; }  ///< Of its exponent.
};

/// Takes text apart as `parse` does, and throws as `parse` does.
Literal read_literal(std::string_view text);

/// Reads a number as written by people and programs: decimal ("0.1", "-6.5e4"), hex-float ("0x1.8p-3"), "inf",
/// "infinity", "nan" (case and a leading sign do not matter), and rounds it once, correctly, by `rounding`.
/// Throws std::invalid_argument naming the text if it is none of these or has more than 100,000 significant digits.
Rounded parse(const FloatFormat& f, const Rounding& rounding, std::string_view text, std::uint64_t random = 0);

/// The shortest decimal that reads back as this code under nearest-even ("0.1", "65500", "6e-08", "Infinity", "NaN");
/// of several, the nearest to the value. -0 prints as "-0".
std::string print(const FloatFormat& f, std::uint64_t code);

/// Every decimal digit of the value ("0.0999755859375").
std::string print_exact(const FloatFormat& f, std::uint64_t code);

/// C99 hexadecimal floating-point text ("0x1.998p-4"): exact.
std::string print_hex(const FloatFormat& f, std::uint64_t code);

/// A code word as the project writes it: "0x3c00", lower case, as many digits as the format needs.
std::string print_code(const FloatFormat& f, std::uint64_t code);

}  // namespace halfulp
