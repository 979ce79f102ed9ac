// A format of one's own: five exponent bits, three fraction bits, the same ends as IEEE 754.
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/float.hpp>

#include <vector>

inline constexpr halfulp::FloatFormat my_format{.exponent_bits = 5, .fraction_bits = 3, .bias = 15};  // nonfinite = NonFinite::ieee

// Everything else follows from these fields.
static_assert(my_format.storage_bits() == 9 && my_format.value(my_format.max_finite()) == 61440);

// As a type: operators round to nearest even.
using Mine = halfulp::Float<my_format>;
static_assert(Mine(16) + Mine(1) == Mine(16));

/// As a value, over an array: each number rounded to the format.
inline std::vector<float> in_my_format(const std::vector<float>& numbers) {
  std::vector<float> rounded(numbers.size());
  halfulp::quantize(my_format, {}, std::span(numbers), std::span(rounded));
  return rounded;
}
