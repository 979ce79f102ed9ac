// What share of a distribution lies below a bound, in closed form.
#include <halfulp/data/distributions.hpp>

#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>

namespace halfulp {
namespace {

using Real = boost::multiprecision::cpp_bin_float_50;

/// P(|T| <= t) of Student's t, the finite sums of Abramowitz & Stegun 26.7.3 and 26.7.4.
Real student_below(const Real& t, int degrees) {
  const Real n = degrees, cos2 = n / (n + t * t), sine = t / sqrt(n + t * t);
  const bool odd = degrees % 2 != 0;
  Real term = odd ? sqrt(cos2) : Real(1), sum = 0;
  for (int k = odd ? 3 : 2; k <= degrees; k += 2) {
    sum += term;
    term *= cos2 * (k - 1) / k;
  }
  if (!odd) return sine * sum;
  const Real pi = boost::math::constants::pi<Real>();
  return 2 / pi * (atan(t / sqrt(n)) + sine * sum);
}

}  // namespace

double Distribution::probability_below(double bound) const {
  if (!(bound > 0)) return 0;
  const Real relative = Real(bound) / pow(Real(2), Real(log2_scale));
  const Real log2_bound = log(Real(bound)) / log(Real(2)), root2 = sqrt(Real(2));
  Real p;
  switch (shape) {
    case Shape::log_normal: p = boost::math::erfc(Real(-(log2_bound - log2_scale) / (log2_sigma * root2))) / 2; break;
    case Shape::normal: p = boost::math::erf(Real(relative / root2)); break;
    case Shape::laplace: p = 1 - exp(-relative); break;
    case Shape::student_t: p = student_below(relative, degrees); break;
    case Shape::uniform: p = relative; break;
    case Shape::log_uniform: p = (log2_bound - log2_low) / (Real(log2_high) - log2_low); break;
  }
  if (p < 0) p = 0;
  if (p > 1) p = 1;
  return p.convert_to<double>();
}

}  // namespace halfulp
