// Which examples a step sees: choices that depend only on (seed, stream, index).
#pragma once

#include <halfulp/emulation/random.hpp>

#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {

/// A number below `count`, each as likely as any other to count / 2^64.
inline std::uint64_t random_below(std::uint64_t count, std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(random_word(seed, stream, index)) * count >> 64);
}

/// 0 to count - 1 in the order of an epoch: Fisher and Yates's shuffle with the numbers of (seed, stream), from the
/// last place down.
inline std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random_below(i, seed, stream, i)]);
  return order;
}

// Synthetic gradients: seeded samples that are the same everywhere, and what share of them lies below a bound.

enum class Shape : std::uint8_t { log_normal, normal, laplace, student_t, uniform, log_uniform };

struct ShapeInfo {
  std::string_view name;
  std::string_view summary;
};

// clang-format off
inline constexpr std::array<ShapeInfo, 6> shapes{{
  {"log-normal",  "log2|x| is normal: magnitudes spread over many binades, as in histograms of real gradients"},
  {"normal",      "Gaussian: most values within two binades below the scale"},
  {"laplace",     "two-sided exponential: sharper peak at zero, longer tails"},
  {"student-t",   "heavy tails: few very large values among many small ones"},
  {"uniform",     "evenly spread between minus the scale and the scale"},
  {"log-uniform", "log2|x| evenly spread between two bounds: each binade holds the same share"},
}};
// clang-format on
constexpr const ShapeInfo& info(Shape shape) { return shapes[static_cast<std::size_t>(shape)]; }
std::vector<std::string> shape_names();

/// The shape of that name. Throws std::invalid_argument naming the nearest ones.
Shape parse_shape(std::string_view name);

/// A distribution symmetric about zero. Only the parameters its shape names matter.
struct Distribution {
  Shape shape = Shape::normal;
  double log2_scale = 0;  ///< log2 of the median of |x| (log-normal), else of sigma, b, scale or half-width
  double log2_sigma = 1;  ///< log-normal: standard deviation of log2|x|, in binades
  int degrees = 2;        ///< student-t: degrees of freedom, 1 to 30
  double log2_low = 0, log2_high = 1;  ///< log-uniform: bounds of log2|x|

  /// Sample `index`: it depends only on (seed, index), and takes only + - * / and square roots of doubles.
  double sample(std::uint64_t seed, std::uint64_t index) const;
  /// The probability that |x| <= bound, in closed form, to double accuracy. bound >= 0.
  double probability_below(double bound) const;
  std::string description() const;
};

/// Of every parameter `seed`: readers of JSON that know only doubles hold every integer up to here.
inline constexpr double largest_seed = 0x1p53 - 1;

/// A standard normal number that depends only on (seed, stream, index): Marsaglia's polar method.
double normal_sample(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// A number in (0, 1) with 52 random bits, never 0 or 1, symmetric about 1/2.
double uniform_sample(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

}  // namespace halfulp
