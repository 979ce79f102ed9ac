// Functions of real numbers, rounded once to a format.
#include <halfulp/experiments/operators/program.hpp>

#include <halfulp/emulation/elementary.hpp>

#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/expm1.hpp>
#include <boost/math/special_functions/log1p.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

namespace halfulp::operators {
namespace {

/// A function of one number, and the same by ISO C: what annex F has it be at infinities, zeros and poles, and where it
/// is not defined.
struct RealFunction {
  ElementaryOperation step;
  Real (*exact)(const Real&);
  double (*special)(double);
  bool in_doubles = true;  ///< ISO C's function is right to a few units in a double's last place
};

/// Of ends and beyond: 0 stands for every other number.
double inverse_erf_at_ends(double x) {
  if (std::fabs(x) == 1) return std::copysign(HUGE_VAL, x);
  return std::fabs(x) < 1 ? std::copysign(0.0, x) : std::nan("");
}

// clang-format off
constexpr std::array<RealFunction, 16> real_functions{{
    {ElementaryOperation::exp,    [](const Real& x) { return Real(exp(x)); }, [](double x) { return std::exp(x); }},
    {ElementaryOperation::log,    [](const Real& x) { return Real(log(x)); }, [](double x) { return std::log(x); }},
    {ElementaryOperation::log1p,  [](const Real& x) { return boost::math::log1p(x); }, [](double x) { return std::log1p(x); }},
    {ElementaryOperation::expm1,  [](const Real& x) { return x > 100 ? Real(exp(x) - 1) : boost::math::expm1(x); }, [](double x) { return std::expm1(x); }},
    {ElementaryOperation::log2,   [](const Real& x) { return Real(log(x) / log(Real(2))); }, [](double x) { return std::log2(x); }},
    {ElementaryOperation::log10,  [](const Real& x) { return Real(log10(x)); }, [](double x) { return std::log10(x); }},
    {ElementaryOperation::sin,    [](const Real& x) { return Real(sin(x)); }, [](double x) { return std::sin(x); }},
    {ElementaryOperation::cos,    [](const Real& x) { return Real(cos(x)); }, [](double x) { return std::cos(x); }},
    {ElementaryOperation::tan,    [](const Real& x) { return Real(tan(x)); }, [](double x) { return std::tan(x); }},
    {ElementaryOperation::asin,   [](const Real& x) { return Real(asin(x)); }, [](double x) { return std::asin(x); }},
    {ElementaryOperation::acos,   [](const Real& x) { return Real(acos(x)); }, [](double x) { return std::acos(x); }},
    {ElementaryOperation::sinh,   [](const Real& x) { return Real(sinh(x)); }, [](double x) { return std::sinh(x); }},
    {ElementaryOperation::cosh,   [](const Real& x) { return Real(cosh(x)); }, [](double x) { return std::cosh(x); }},
    {ElementaryOperation::tanh,   [](const Real& x) { return Real(tanh(x)); }, [](double x) { return std::tanh(x); }},
    {ElementaryOperation::erf,    [](const Real& x) { return boost::math::erf(x); }, [](double x) { return std::erf(x); }},
    {ElementaryOperation::erfinv, [](const Real& x) { return abs(x) == 1 ? Real(x * std::numeric_limits<Real>::infinity()) : boost::math::erf_inv(x); }, inverse_erf_at_ends, false},
}};
// clang-format on

const RealFunction& function_of_step(ElementaryOperation step) {
  for (const RealFunction& f : real_functions)
    if (f.step == step) return f;
  throw std::logic_error("operators: a function expected");
}

/// Whether y, off by 2^-47 of it at most, leaves no doubt what its number is rounded to. C libraries give a few units
/// in the last place; where there is a doubt, 113 bits decide, so that the result is the same with each of them.
std::optional<std::uint64_t> rounded_beyond_doubt(const FloatFormat& f, const Rounding& rounding, double y) {
  if (!(std::fabs(y) > 0x1p-1000 && std::fabs(y) < 0x1p1000)) return std::nullopt;
  const std::uint64_t low = encode(f, rounding, y * (1 - 0x1p-47)).code,
                      high = encode(f, rounding, y * (1 + 0x1p-47)).code;
  if (low != high) return std::nullopt;
  return low;
}

/// Of infinities and zeros by IEEE 754-2019, 9.2.1.
std::uint64_t rounded_power(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  const double x = f.value(a), exponent = f.value(b), y = std::pow(x, exponent);
  if (std::isnan(y)) return invalid(f, rounding).code;
  if (std::isinf(x) || std::isinf(exponent) || x == 0)
    return std::isinf(y) ? infinite(f, rounding, y < 0).code : encode(f, rounding, y).code;
  if (const auto code = rounded_beyond_doubt(f, rounding, y)) return *code;
  return round_real(f, rounding, real_function(ElementaryOperation::pow, Real(x), Real(exponent)));
}

}  // namespace

Real real_function(ElementaryOperation step, const Real& x, const Real& y) {
  if (step == ElementaryOperation::pow) return pow(x, y);
  const RealFunction& function = function_of_step(step);
  // Boost throws at some of these.
  return isfinite(x) ? function.exact(x) : Real(function.special(static_cast<double>(x)));
}

std::uint64_t round_real(const FloatFormat& f, const Rounding& rounding, const Real& x) {
  if (isnan(x)) return fresh_nan(f, rounding);
  if (isinf(x)) return infinite(f, rounding, x < 0).code;
  if (x == 0) return f.zero(signbit(x) != 0);
  int exponent = 0;
  constexpr int digits = std::numeric_limits<Real>::digits, far = 100000;
  const Real fraction = frexp(Real(abs(x)), &exponent);
  const auto significand = static_cast<uint128>(ldexp(fraction, digits));
  return round_pack<uint128>(f, rounding, {x < 0, std::clamp(exponent, -far, far) - digits, significand}, 0).code;
}

std::uint64_t rounded_function(const FloatFormat& f, const Rounding& rounding, ElementaryOperation step,
                               std::uint64_t a, std::uint64_t b) {
  const bool power = step == ElementaryOperation::pow;
  if (f.is_nan(a) || (power && f.is_nan(b))) return nan_result(f, rounding, {a, b}).code;
  if (power) return rounded_power(f, rounding, a, b);
  if (step == ElementaryOperation::exp) {
    const auto code = rounded_beyond_doubt(f, rounding, std::exp(f.value(a)));
    return code ? *code : exp(f, rounding, a).code;
  }
  const RealFunction& function = function_of_step(step);
  const double x = f.value(a), y = function.special(x);
  if (std::isnan(y)) return invalid(f, rounding).code;
  const bool pole = std::isinf(y) && std::fabs(x) <= 1;  // what merely overflows does so farther away
  if (pole || (std::isinf(x) && std::isinf(y))) return infinite(f, rounding, y < 0).code;
  if (std::isinf(x) || (x == 0 && y == 0)) return encode(f, rounding, y).code;
  if (function.in_doubles)
    if (const auto code = rounded_beyond_doubt(f, rounding, y)) return *code;
  return round_real(f, rounding, function.exact(Real(x)));
}

}  // namespace halfulp::operators
