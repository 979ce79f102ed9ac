// Functions of real numbers, rounded once to a format.
#include <halfulp/experiments/operators/program.hpp>

#include <halfulp/emulation/elementary.hpp>

#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/expm1.hpp>
#include <boost/math/special_functions/log1p.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace halfulp::operators {
namespace {

/// A function of one number, and the same by ISO C: what annex F has it be at infinities, zeros and poles, and where it
/// is not defined.
struct RealFunction {
  ElementaryOperation step;
  Real (*exact)(const Real&);
  double (*special)(double);
};

// clang-format off
constexpr std::array<RealFunction, 8> functions{{
    {ElementaryOperation::exp,   [](const Real& x) { return Real(exp(x)); },     [](double x) { return std::exp(x); }},
    {ElementaryOperation::log,   [](const Real& x) { return Real(log(x)); },     [](double x) { return std::log(x); }},
    {ElementaryOperation::log1p, [](const Real& x) { return boost::math::log1p(x); }, [](double x) { return std::log1p(x); }},
    {ElementaryOperation::expm1, [](const Real& x) { return boost::math::expm1(x); }, [](double x) { return std::expm1(x); }},
    {ElementaryOperation::sin,   [](const Real& x) { return Real(sin(x)); },     [](double x) { return std::sin(x); }},
    {ElementaryOperation::cos,   [](const Real& x) { return Real(cos(x)); },     [](double x) { return std::cos(x); }},
    {ElementaryOperation::tanh,  [](const Real& x) { return Real(tanh(x)); },    [](double x) { return std::tanh(x); }},
    {ElementaryOperation::erf,   [](const Real& x) { return boost::math::erf(x); }, [](double x) { return std::erf(x); }},
}};
// clang-format on

const RealFunction& find(ElementaryOperation step) {
  for (const RealFunction& f : functions)
    if (f.step == step) return f;
  throw std::logic_error("operators: a function expected");
}

std::uint64_t rounded_power(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  if (f.is_infinite(a)) return a;                          // exponents here are odd integers
  if (f.is_infinite(b)) return invalid(f, rounding).code;  // 3 is beyond the format
  if (f.value(a) == 0) return a;
  return round_real(f, rounding, real_function(ElementaryOperation::pow, Real(f.value(a)), Real(f.value(b))));
}

}  // namespace

Real real_function(ElementaryOperation step, const Real& x, const Real& y) {
  return step == ElementaryOperation::pow ? Real(pow(x, y)) : find(step).exact(x);
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
  if (step == ElementaryOperation::exp) return exp(f, rounding, a).code;
  const RealFunction& function = find(step);
  const double x = f.value(a), y = function.special(x);
  if (std::isnan(y)) return invalid(f, rounding).code;
  const bool pole = std::isinf(y) && std::fabs(x) <= 1;  // what merely overflows does so farther away
  if (pole || (std::isinf(x) && std::isinf(y))) return infinite(f, rounding, y < 0).code;
  if (std::isinf(x) || (x == 0 && y == 0)) return encode(f, rounding, y).code;
  return round_real(f, rounding, function.exact(Real(x)));
}

}  // namespace halfulp::operators
