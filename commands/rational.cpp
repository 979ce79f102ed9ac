#include <halfulp/commands/rational.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace halfulp::cli {
namespace {

using boost::multiprecision::cpp_int;

cpp_int power_of_ten(int e) { return boost::multiprecision::pow(cpp_int(10), static_cast<unsigned>(e)); }

/// floor(x * base^e) for positive x, and whether nothing was lost.
cpp_int scaled(const Rational& x, const cpp_int& factor, bool multiply, bool& exact) {
  cpp_int n = numerator(x), d = denominator(x);
  (multiply ? n : d) *= factor;
  cpp_int quotient, rest;
  divide_qr(n, d, quotient, rest);
  exact = rest.is_zero();
  return quotient;
}

/// e with 10^e <= x < 10^(e + 1), for positive x.
int decimal_exponent(const Rational& x) {
  int e = static_cast<int>(binary_exponent(x) * 0.30103) - 1;  // too small by at most a few
  bool exact;
  while (scaled(x, power_of_ten(std::abs(e + 1)), e + 1 < 0, exact) != 0) ++e;
  while (scaled(x, power_of_ten(std::abs(e)), e < 0, exact) == 0) --e;
  return e;
}

}  // namespace

Rational power_of_two(int e) {
  const cpp_int power = cpp_int(1) << std::abs(e);
  return e >= 0 ? Rational(power) : Rational(cpp_int(1), power);
}

Rational exact_value(const FloatFormat& f, std::uint64_t code) {
  const Rational magnitude = f.is_zero(code) ? Rational(0)
                                             : Rational(f.significand(code)) * power_of_two(f.exponent(code));
  return f.sign(code) ? Rational(-magnitude) : magnitude;
}

Rational literal_value(const Literal& number, std::string_view text) {
  if (number.kind == Kind::zero) return 0;
  constexpr std::size_t most_digits = 10'000;
  if (number.digits.size() > most_digits)
    throw std::invalid_argument(
        fmt::format("'{}' has {} digits; accepted: at most {}", shown(text), number.digits.size(), most_digits));
  const long long size = number.exponent + (number.hexadecimal ? 4 : 1) * static_cast<long long>(number.digits.size());
  const long long limit = number.hexadecimal ? 16000 : 4801;  // a size of 4801 is 1e4800 to 9.9...e4800
  if (size > limit || size < -limit)
    throw std::invalid_argument(
        fmt::format("'{}' is out of range; accepted: sizes from 1e-4800 to 1e+4800", shown(text)));
  const cpp_int digits((number.hexadecimal ? "0x" : "") + number.digits);
  const cpp_int scale = boost::multiprecision::pow(cpp_int(number.base()),
                                                   static_cast<unsigned>(std::llabs(number.exponent)));
  const Rational magnitude = number.exponent < 0 ? Rational(digits, scale) : Rational(cpp_int(digits * scale));
  return number.sign ? Rational(-magnitude) : magnitude;
}

Rounded round_exact(const FloatFormat& f, const Rounding& rounding, const Rational& x, std::uint64_t random) {
  if (x.is_zero()) return parse(f, rounding, "0", random);
  // Two hundred leading bits and one that says whether there are more decide every rounding: see deciding_digits in
  // emulation/text.cpp.
  const int shift = 200 - binary_exponent(x);
  bool exact;
  cpp_int bits = scaled(abs(x), cpp_int(1) << std::abs(shift), shift >= 0, exact);
  bits = bits * 2 + (exact ? 0 : 1);
  return parse(f, rounding, fmt::format("{}0x{}p{}", x < 0 ? "-" : "", bits.str(0, std::ios_base::hex), -shift - 1),
               random);
}

Rational ulp_at(const FloatFormat& f, const Rational& x) {
  const int binade = x.is_zero() ? f.emin() : std::clamp(binary_exponent(x), f.emin(), f.emax());
  return power_of_two(binade - f.fraction_bits);
}

int binary_exponent(const Rational& x) {
  const cpp_int n = abs(numerator(x)), d = denominator(x);
  const int e = static_cast<int>(msb(n)) - static_cast<int>(msb(d));
  return (e >= 0 ? n >= (d << e) : (n << -e) >= d) ? e : e - 1;
}

bool is_power_of_two(const Rational& x, int& e) {
  if (x <= 0) return false;
  e = binary_exponent(x);
  return x == power_of_two(e);
}

std::string fraction_text(const Rational& x) {
  const std::string whole = numerator(x).str();
  return denominator(x) == 1 ? whole : whole + "/" + denominator(x).str();
}

std::string decimal_text(const Rational& x, int digits) {
  if (x.is_zero()) return "0";
  const Rational magnitude = abs(x);
  const int e = decimal_exponent(magnitude);
  bool exact;
  std::string text = scaled(magnitude, power_of_ten(std::abs(digits - 1 - e)), digits - 1 - e >= 0, exact).str();
  if (exact) text.erase(text.find_last_not_of('0') + 1);
  const std::string more = exact ? "" : "...";
  const int count = static_cast<int>(text.size());
  const std::string sign = x < 0 ? "-" : "";
  const bool readable = e >= 0 ? e < std::max(digits, 6) && (exact || count > e) : e >= -4;
  if (!readable) {
    if (count > 1) text.insert(1, ".");
    return sign + text + more + (e < 0 ? "e-" : "e+") + (std::abs(e) < 10 ? "0" : "") + std::to_string(std::abs(e));
  }
  if (e < 0) return sign + "0." + std::string(static_cast<std::size_t>(-e - 1), '0') + text + more;
  if (count <= e + 1) text.append(static_cast<std::size_t>(e + 1 - count), '0');
  if (static_cast<int>(text.size()) > e + 1) text.insert(static_cast<std::size_t>(e + 1), ".");
  else if (!exact) text += ".";
  return sign + text + more;
}

Rational rounded_to(const Rational& x, int digits) {
  if (x.is_zero()) return x;
  const int shift = digits - 1 - decimal_exponent(abs(x));
  bool exact;
  const cpp_int twice = scaled(abs(x) * 2, power_of_ten(std::abs(shift)), shift >= 0, exact);
  const Rational power = power_of_ten(std::abs(shift)), nearest = (twice + 1) / 2;
  const Rational magnitude = shift >= 0 ? Rational(nearest / power) : Rational(nearest * power);
  return x < 0 ? Rational(-magnitude) : magnitude;
}

std::string rounded(const Rational& x, int digits) { return decimal_text(rounded_to(x, digits), digits); }

std::string ulps_text(const Rational& x, int digits) {
  constexpr int most = 7;
  const int whole = x.is_zero() ? 0 : decimal_exponent(abs(x)) + 1;
  return rounded(x, whole <= most ? std::max(digits, whole) : digits);
}

std::string binary_text(const Rational& x, int exponent, int kept, int dropped) {
  const Rational rest = abs(x) * power_of_two(-exponent);
  bool exact;
  cpp_int bits = scaled(rest, cpp_int(1) << (kept + dropped), true, exact);
  std::string text;
  for (int i = kept + dropped; i > 0; --i) {
    text.insert(text.begin(), bit_test(bits, 0) ? '1' : '0');
    bits >>= 1;
  }
  std::string tail = text.substr(static_cast<std::size_t>(kept));
  if (exact) tail.erase(tail.find_last_not_of('0') + 1);
  std::string integer;
  do {
    integer.insert(integer.begin(), bit_test(bits, 0) ? '1' : '0');
    bits >>= 1;
  } while (!bits.is_zero());
  return integer + "." + text.substr(0, static_cast<std::size_t>(kept)) + "|" + (tail.empty() ? "0" : tail) +
         (exact ? "" : "...");
}

}  // namespace halfulp::cli
