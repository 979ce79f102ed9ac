#include <halfulp/emulation/text.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/support/spelling.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace halfulp {
namespace {

using boost::multiprecision::cpp_int;

/// Exponents beyond this decide the result whatever the digits: every format's values lie within 10^+-400.
constexpr long long far = 5000;

/// Digits behind these decide only whether there is something behind them: where one result gives way to the next, the
/// random bits of stochastic rounding included, lie multiples of 2^-1107 of at most 86 bits, which have at most 802
/// digits.
constexpr std::size_t deciding_digits = 1200;
constexpr std::size_t most_digits = 100'000;

/// The number with the digits that decide nothing replaced by one that says whether they were zeros.
Literal shortened(Literal number) {
  if (number.digits.size() <= deciding_digits) return number;
  const bool more = number.digits.find_first_not_of('0', deciding_digits) != std::string::npos;
  number.exponent += (number.hexadecimal ? 4 : 1) * static_cast<long long>(number.digits.size() - deciding_digits - 1);
  number.digits.resize(deciding_digits);
  number.digits += more ? '1' : '0';
  return number;
}

/// The leading bits of numerator / denominator with the rest jammed into the last one.
Exact<uint128> leading_bits(bool sign, cpp_int numerator, cpp_int denominator) {
  const int wanted = 120;
  const int shift = wanted - (static_cast<int>(msb(numerator)) - static_cast<int>(msb(denominator)));
  (shift >= 0 ? numerator : denominator) <<= shift >= 0 ? shift : -shift;
  cpp_int quotient, rest;
  divide_qr(numerator, denominator, quotient, rest);
  if (!rest.is_zero()) quotient |= 1;
  return {sign, -shift, static_cast<uint128>(quotient)};
}

/// Reads digits, at most one point and an optional exponent into `number`. False if that is not what the text is.
bool read_digits(std::string_view text, Literal& number) {
  bool point = false, any = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = lowered(text.front());
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    const bool digit = (c >= '0' && c <= '9') || (number.hexadecimal && c >= 'a' && c <= 'f');
    if (!digit) break;
    any = true;
    if (!(number.digits.empty() && c == '0')) number.digits += c;
    if (point) number.exponent -= number.hexadecimal ? 4 : 1;
  }
  if (number.digits.size() > most_digits)
    throw std::invalid_argument("a number of " + std::to_string(number.digits.size()) + " digits; accepted: at most " +
                                std::to_string(most_digits));
  if (any && !text.empty() && lowered(text.front()) == (number.hexadecimal ? 'p' : 'e')) {
    text.remove_prefix(1);
    bool negative = false;
    if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
      negative = text.front() == '-';
      text.remove_prefix(1);
    }
    long long exponent = 0;
    any = false;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
      any = true;
      if (exponent < 1'000'000'000) exponent = exponent * 10 + (text.front() - '0');
    }
    number.exponent += negative ? -exponent : exponent;
  }
  return any && text.empty();
}

/// "0.1" for "0,1": a decimal number with a comma for its point. Empty for anything else.
std::string with_point(std::string text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos || text.find('.') != std::string::npos) return {};
  text[comma] = '.';
  const std::string_view digits = std::string_view(text).substr(text[0] == '-' || text[0] == '+' ? 1 : 0);
  Literal number;
  return read_digits(digits, number) ? text : std::string();
}

cpp_int power(int base, long long exponent) {
  return boost::multiprecision::pow(cpp_int(base), static_cast<unsigned>(exponent));
}

/// At least that many digits.
std::string hexadecimal(std::uint64_t x, std::size_t digits) {
  char text[16];
  const char* const end = std::to_chars(text, text + sizeof text, x, 16).ptr;
  const auto size = static_cast<std::size_t>(end - text);
  return std::string(digits > size ? digits - size : 0, '0').append(text, size);
}

/// Significant decimal digits of a positive value and its decimal exponent: value = 0.d1d2d3... * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent;
};
/// m 2^e as m 5^-e 10^e where e is negative.
Decimal exact_decimal(double value) {
  const Operand x = unpack(FloatFormat{11, 52, 1023}, {}, std::bit_cast<std::uint64_t>(value));
  const cpp_int significand = x.significand;
  std::string digits = cpp_int(x.exponent < 0 ? cpp_int(significand * power(5, -x.exponent))
                                              : cpp_int(significand << static_cast<unsigned>(x.exponent)))
                           .str();
  const int exponent = static_cast<int>(digits.size()) + std::min(0, x.exponent);
  digits.erase(digits.find_last_not_of('0') + 1);
  return {digits, exponent};
}

/// d.ddd or 0.000ddd for moderate exponents, else d.ddde+XX.
std::string layout(const Decimal& d) {
  const int n = static_cast<int>(d.digits.size());
  if (d.exponent > 0 && d.exponent <= 17) {
    if (n <= d.exponent) return d.digits + std::string(static_cast<std::size_t>(d.exponent - n), '0');
    return std::string(d.digits).insert(static_cast<std::size_t>(d.exponent), 1, '.');
  }
  if (d.exponent <= 0 && d.exponent > -5)
    return std::string("0.").append(static_cast<std::size_t>(-d.exponent), '0') + d.digits;
  std::string text = d.digits.substr(0, 1);
  if (n > 1) text.append(1, '.').append(d.digits, 1);
  const int e = d.exponent - 1;
  const std::string magnitude = std::to_string(e < 0 ? -e : e);
  return text + (e < 0 ? "e-" : "e+") + (magnitude.size() < 2 ? "0" : "") + magnitude;
}

/// The n-digit decimals next to d: truncated, and truncated plus one unit.
Decimal truncated(const Decimal& d, std::size_t n) { return {d.digits.substr(0, n), d.exponent}; }
Decimal next_above(Decimal d) {
  std::size_t i = d.digits.size();
  while (i > 0 && d.digits[i - 1] == '9') d.digits[--i] = '0';
  if (i > 0) {
    ++d.digits[i - 1];
  } else {
    d.digits[0] = '1';  // 99 -> 100, of which the first two digits count
    ++d.exponent;
  }
  return d;
}
/// Whether d is closer to the next n-digit decimal above than to the truncated one; ties go to the even digit.
bool upper_half(const Decimal& d, std::size_t n) {
  if (d.digits[n] == '5' && d.digits.size() == n + 1) return (d.digits[n - 1] - '0') % 2 != 0;
  return d.digits[n] >= '5';
}

std::string not_finite(const FloatFormat& f, std::uint64_t code) {
  if (f.is_nan(code)) return "NaN";
  return f.sign(code) ? "-Infinity" : "Infinity";
}

}  // namespace

Literal read_literal(std::string_view text) {
  const std::string whole(text.substr(0, 60));
  Literal number;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    number.sign = text.front() == '-';
    text.remove_prefix(1);
  }
  std::string word;
  for (const char c : text.substr(0, 10)) word += lowered(c);
  if (word == "inf" || word == "infinity") {
    number.kind = Kind::infinite;
    return number;
  }
  if (word == "nan") {
    number.kind = Kind::nan;
    return number;
  }
  number.hexadecimal = word.size() > 2 && word[0] == '0' && word[1] == 'x';
  if (!read_digits(text.substr(number.hexadecimal ? 2 : 0), number)) {
    if (const std::string point = with_point(whole); !point.empty())
      throw std::invalid_argument("'" + shown(whole) + "' has a decimal comma; accepted: a decimal point (" + point +
                                  ")");
    throw std::invalid_argument("'" + shown(whole) +
                                "' is not a number; accepted: decimal (0.1, -6.5e4), hex-float (0x1.8p-3), inf, nan");
  }
  number.kind = number.digits.empty() ? Kind::zero : Kind::finite;
  return number;
}

Rounded parse(const FloatFormat& f, const Rounding& rounding, std::string_view text, std::uint64_t random) {
  const Literal number = shortened(read_literal(text));
  constexpr FloatFormat binary64{11, 52, 1023};
  switch (number.kind) {
    case Kind::infinite: return convert(binary64, f, rounding, binary64.infinity(number.sign));
    case Kind::nan: {  // an operand that is read keeps its sign, where the format's NaN has one
      Rounded nan = convert(binary64, f, rounding, binary64.canonical_nan());
      if (const std::uint64_t negative = f.with_sign(nan.code, true);
          number.sign && f.is_nan(nan.code) && f.is_nan(negative))
        nan.code = negative;
      return nan;
    }
    case Kind::zero: return convert(binary64, f, rounding, binary64.zero(number.sign), random);
    case Kind::finite: break;
  }

  // Numbers whose exponent decides are replaced by others that are out of range too.
  const long long magnitude = number.exponent +
                              (number.hexadecimal ? 4 : 1) * static_cast<long long>(number.digits.size());
  if (magnitude > far) return round_pack<uint128>(f, rounding, {number.sign, 4 * far, 1}, random);
  if (magnitude < -far) return round_pack<uint128>(f, rounding, {number.sign, -4 * far, 1}, random);
  const cpp_int digits((number.hexadecimal ? "0x" : "") + number.digits);
  const cpp_int scale = power(number.base(), number.exponent < 0 ? -number.exponent : number.exponent);
  return round_pack(
      f, rounding,
      number.exponent < 0 ? leading_bits(number.sign, digits, scale) : leading_bits(number.sign, digits * scale, 1),
      random);
}

std::string print(const FloatFormat& f, std::uint64_t code) {
  if (!f.is_finite(code)) return not_finite(f, code);
  if (f.is_zero(code)) return f.sign(code) ? "-0" : "0";
  const double value = f.value(f.magnitude(code));
  const Decimal exact = exact_decimal(value);
  const Rounding nearest;
  const auto reads_back = [&](const Decimal& d) {  // beyond the range, saturation to the largest value does not count
    const Rounded read = parse(f, nearest, layout(d));
    return read.code == f.magnitude(code) && (read.flags & flag::overflow) == 0;
  };
  std::string text = layout(exact);
  for (std::size_t n = 1; n < exact.digits.size(); ++n) {
    const Decimal below = truncated(exact, n), above = next_above(below);
    const bool prefer_above = upper_half(exact, n);
    const Decimal& first = prefer_above ? above : below;
    const Decimal& second = prefer_above ? below : above;
    if (const bool hit = reads_back(first); hit || reads_back(second)) {
      Decimal chosen = hit ? first : second;
      chosen.digits.erase(chosen.digits.find_last_not_of('0') + 1);
      text = layout(chosen);
      break;
    }
  }
  return (f.sign(code) ? std::string("-") : std::string()).append(text);
}

std::string print_exact(const FloatFormat& f, std::uint64_t code) {
  if (!f.is_finite(code)) return not_finite(f, code);
  if (f.is_zero(code)) return f.sign(code) ? "-0" : "0";
  Decimal d = exact_decimal(f.value(f.magnitude(code)));
  std::string text;
  if (d.exponent <= 0) {
    text.append("0.").append(static_cast<std::size_t>(-d.exponent), '0').append(d.digits);
  } else {
    const auto whole = static_cast<std::size_t>(d.exponent);
    if (d.digits.size() < whole) d.digits.append(whole - d.digits.size(), '0');
    if (d.digits.size() > whole) d.digits.insert(whole, 1, '.');
    text = d.digits;
  }
  return (f.sign(code) ? std::string("-") : std::string()).append(text);
}

std::string print_hex(const FloatFormat& f, std::uint64_t code) {
  if (!f.is_finite(code)) return not_finite(f, code);
  const double value = f.value(code);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  std::string text = std::signbit(value) ? "-0x" : "0x";
  text += field ? '1' : '0';
  std::string digits = hexadecimal(fraction, 13);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (!digits.empty()) text.append(".").append(digits);
  const int exponent = value == 0 ? 0 : field ? field - 1023 : -1022;
  return text.append(exponent < 0 ? "p-" : "p+").append(std::to_string(std::abs(exponent)));
}

std::string print_code(const FloatFormat& f, std::uint64_t code) {
  return "0x" + hexadecimal(code, static_cast<std::size_t>(f.hex_digits()));
}

}  // namespace halfulp
