#include <halfulp/data/distributions.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/support/spelling.hpp>

#include <boost/math/special_functions/erf.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace halfulp {
namespace {

using Real = boost::multiprecision::cpp_bin_float_50;

/// Streams below this belong to the shapes; a draw that needs several numbers takes them from the streams above it.
constexpr std::uint64_t next_draw = std::uint64_t{1} << 32;

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

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const ShapeInfo& shape : shapes) names.emplace_back(shape.name);
  return names;
}

Shape parse_shape(std::string_view name) {
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i].name == name) return static_cast<Shape>(i);
  throw std::invalid_argument(unknown_name("distribution", name, shape_names()));
}

double uniform_sample(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return (static_cast<double>(random_word(seed, stream, index) >> 12) + 0.5) * FloatFormat::power_of_two(-52);
}

double normal_sample(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  for (std::uint64_t draw = 0;; draw += 2 * next_draw) {
    const double u = 2 * uniform_sample(seed, stream + draw, index) - 1;
    const double v = 2 * uniform_sample(seed, stream + draw + next_draw, index) - 1;
    const double s = u * u + v * v;
    if (s < 1 && s > 0) return u * std::sqrt(-2 * deterministic_log(s) / s);
  }
}

double Distribution::sample(std::uint64_t seed, std::uint64_t index) const {
  // Streams: 8 a shape, the shape's own numbers in the first, its sign in the last.
  const std::uint64_t stream = 1 + 8 * static_cast<std::uint64_t>(shape);
  const double sign = random_word(seed, stream + 7, index) & 1 ? -1 : 1;
  const double scale = deterministic_exp2(log2_scale);
  switch (shape) {
    case Shape::log_normal:
      return sign * deterministic_exp2(log2_scale + log2_sigma * normal_sample(seed, stream, index));
    case Shape::normal: return scale * normal_sample(seed, stream, index);
    case Shape::laplace: return sign * scale * -deterministic_log(uniform_sample(seed, stream, index));
    case Shape::student_t: {
      // A chi-square with n degrees: -2 ln of a product of uniforms, and one squared normal if n is odd.
      double chi2 = 0;
      for (int k = 0; k < degrees / 2; ++k)
        chi2 -= 2 *
                deterministic_log(uniform_sample(seed, stream + 1 + static_cast<std::uint64_t>(k) * next_draw, index));
      if (degrees % 2 != 0) {
        const double z = normal_sample(seed, stream + 2, index);
        chi2 += z * z;
      }
      return scale * (normal_sample(seed, stream, index) / std::sqrt(chi2 / degrees));
    }
    case Shape::uniform: return sign * scale * uniform_sample(seed, stream, index);
    case Shape::log_uniform:
      return sign * deterministic_exp2(log2_low + (log2_high - log2_low) * uniform_sample(seed, stream, index));
  }
  throw std::logic_error("Distribution::sample: unknown shape");
}

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

std::string Distribution::description() const {
  switch (shape) {
    case Shape::log_normal: return fmt::format("median 2^{}, sigma {} binades", log2_scale, log2_sigma);
    case Shape::normal: return fmt::format("sigma 2^{}", log2_scale);
    case Shape::laplace: return fmt::format("scale 2^{}", log2_scale);
    case Shape::student_t: return fmt::format("{} degrees of freedom, scale 2^{}", degrees, log2_scale);
    case Shape::uniform: return fmt::format("within ±2^{}", log2_scale);
    case Shape::log_uniform: return fmt::format("from 2^{} to 2^{}", log2_low, log2_high);
  }
  throw std::logic_error("Distribution::description: unknown shape");
}

}  // namespace halfulp
