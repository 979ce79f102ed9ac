#include <halfulp/data/distributions.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace halfulp {
namespace {

/// Streams below this belong to the shapes; a draw that needs several numbers takes them from the streams above it.
constexpr std::uint64_t next_draw = std::uint64_t{1} << 32;

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
