// Roots, exponentials and logarithms for `halfulp calc`, to more digits than anybody prints.
#include <halfulp/commands/expression.hpp>

#include <boost/math/special_functions/log1p.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

#include <cstdlib>

namespace halfulp::cli {
namespace {

using boost::multiprecision::cpp_int;
using Real = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<110>>;

std::optional<Rational> from_real(const Real& x) {
  if (!isfinite(x)) return std::nullopt;
  if (x.is_zero()) return Rational(0);
  int exponent = 0;
  const Real mantissa = frexp(x, &exponent);
  constexpr int bits = 360, largest_exponent = 64'000;  // four times that of the largest operand
  if (std::abs(exponent) > largest_exponent) return std::nullopt;
  return Rational(Rational(ldexp(mantissa, bits).convert_to<cpp_int>()) * power_of_two(exponent - bits));
}

/// The relative error of an irrational result, in which the arithmetic with 110 digits may lose a few.
Rational last_digit() { return Rational(1, boost::multiprecision::pow(cpp_int(10), 105)); }

}  // namespace

std::optional<Known> irrational_result(Operation operation, const Known& x) {
  const Rational& a = x.value;
  const Rational& da = x.doubt;
  // The function's own error, and that of its operand by its slope there.
  const auto result = [&](const Real& value, const Rational& slope) -> std::optional<Known> {
    const std::optional<Rational> found = from_real(value);
    if (!found) return std::nullopt;
    return known(*found, abs(*found) * last_digit() + 2 * abs(slope) * da);
  };
  const auto real = [&](const Rational& value) { return Real(Real(numerator(value)) / Real(denominator(value))); };
  switch (operation) {
    case Operation::sqrt:
      return result(sqrt(real(a)), da.is_zero() ? Rational(0) : *from_real(Real(1 / sqrt(real(a)))));
    case Operation::rsqrt:
      return result(1 / sqrt(real(a)), da.is_zero() ? Rational(0) : Rational(*from_real(Real(1 / sqrt(real(a)))) / a));
    case Operation::exp: {
      const Real value = exp(real(a));
      return result(value, da.is_zero() ? Rational(0) : *from_real(value));
    }
    case Operation::log2: {
      // log1p near 1, where the logarithm of a number with so many digits would be left with none.
      const Rational above = a - 1;
      const Real value = abs(above) < Rational(1, 4) ? Real(boost::math::log1p(real(above)) / log(Real(2)))
                                                     : Real(log2(real(a)));
      return result(value, Rational(1 / a));
    }
    default: return std::nullopt;
  }
}

}  // namespace halfulp::cli
