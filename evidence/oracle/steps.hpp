// Conversions of floats as step functions. Rounding is monotone: over the floats of one sign every code is the result
// of one interval, so the oracle need be asked at the ends of intervals only, which bisection finds.
#pragma once

#include <halfulp/evidence/oracle/operations.hpp>

#include <vector>

namespace oracle {

/// The result from `first` (the magnitude bits of a float) up to the next step.
struct Step {
  std::uint32_t first;
  std::uint64_t code;
};

inline constexpr FloatFormat float_format{8, 23, 127};
inline constexpr std::uint32_t float_infinity = 0x7f80'0000, float_sign = 0x8000'0000;

/// One float, sign included. Formats of up to 8 exponent and 16 bits need no more than __int128, which is checked.
inline std::uint64_t converted(const FloatFormat& to, const Rounding& r, std::uint32_t bits) {
  return oracle::convert<int128>(float_format, to, r, bits).code;
}

inline void bisect(const FloatFormat& to, const Rounding& r, std::uint32_t sign, Step low, Step high,
                   std::vector<Step>& steps) {
  if (low.code == high.code) return;
  if (high.first - low.first == 1) {
    steps.push_back(high);
    return;
  }
  const std::uint32_t middle = low.first + (high.first - low.first) / 2;
  const Step between{middle, converted(to, r, middle | sign)};
  bisect(to, r, sign, low, between, steps);
  bisect(to, r, sign, between, high, steps);
}

/// All steps over the non-zero finite floats of one sign.
inline std::vector<Step> finite_steps(const FloatFormat& to, const Rounding& r, std::uint32_t sign) {
  const Step low{1, converted(to, r, 1 | sign)},
      high{float_infinity - 1, converted(to, r, (float_infinity - 1) | sign)};
  std::vector<Step> steps{low};
  bisect(to, r, sign, low, high, steps);
  return steps;
}

/// All steps over all floats of one sign: zero, the finite ones, infinity, the NaNs (which have one result while NaN
/// results are canonical).
inline std::vector<Step> all_steps(const FloatFormat& to, const Rounding& r, std::uint32_t sign) {
  std::vector<Step> steps{{0, converted(to, r, sign)}};
  const std::vector<Step> finite = finite_steps(to, r, sign);
  steps.insert(steps.end(), finite.begin(), finite.end());
  steps.push_back({float_infinity, converted(to, r, float_infinity | sign)});
  steps.push_back({float_infinity + 1, converted(to, r, (float_infinity + 1) | sign)});
  return steps;
}

}  // namespace oracle
