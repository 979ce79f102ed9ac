#include <halfulp/data/statistics.hpp>

#include <halfulp/emulation/round_pack.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <cassert>

namespace halfulp {

Units in_units(double x, int scale) {
  const auto code = std::bit_cast<std::uint64_t>(x);
  assert(fp64.is_finite(code));
  if (fp64.is_zero(code)) return 0;
  const std::uint64_t significand = fp64.significand(code);
  const int trailing = std::countr_zero(significand);
  const int shift = fp64.exponent(code) + trailing + scale;
  assert(shift >= 0);
  const Units magnitude = Units(significand >> trailing) << static_cast<unsigned>(shift);
  return fp64.sign(code) ? Units(-magnitude) : magnitude;
}

std::uint64_t rounded(const FloatFormat& f, const Rounding& rounding, const Units& a, const Units& b, int exponent) {
  assert(b > 0 && rounding.mode != RoundingMode::stochastic);
  if (a == 0) return f.zero();
  Units numerator = abs(a), denominator = b, remainder;
  // A quotient of 66 or 67 bits and whether anything is left: enough to round once.
  const int shift = 66 - (static_cast<int>(msb(numerator)) - static_cast<int>(msb(denominator)));
  if (shift >= 0) numerator <<= static_cast<unsigned>(shift);
  else denominator <<= static_cast<unsigned>(-shift);
  Units quotient;
  divide_qr(numerator, denominator, quotient, remainder);
  const Units high = quotient >> 64;
  const uint128 significand = uint128{static_cast<std::uint64_t>(high)} << 64 |
                              static_cast<std::uint64_t>(Units(quotient - (high << 64))) | (remainder != 0);
  return round_pack<uint128>(f, rounding, {a < 0, exponent - shift, significand}).code;
}

double ratio(const Units& a, const Units& b) { return fp64.value(rounded(fp64, {}, a, b)); }

}  // namespace halfulp
