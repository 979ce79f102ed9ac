// Conversions of floats as step functions. Rounding is monotone: over the floats of one sign every code is the result
// of one interval, so it is enough to ask the oracle at the ends of intervals, which bisection finds.
#pragma once

#include <halfulp/evidence/oracle/operations.hpp>

#include <vector>

namespace oracle {

/// One result, from `first` (the magnitude bits of a float) up to where the next begins.
struct Plateau {
  std::uint32_t first;
  std::uint64_t code;
};

inline constexpr FloatFormat float_format{8, 23, 127};
inline constexpr std::uint32_t float_infinity = 0x7f80'0000, float_sign = 0x8000'0000;

/// One float, sign included. Formats of up to 8 exponent and 16 bits need no more than __int128, which is checked.
inline std::uint64_t converted(const FloatFormat& to, const Rounding& r, std::uint32_t bits) {
  return oracle::convert<int128>(float_format, to, r, bits).code;
}

inline void bisect(const FloatFormat& to, const Rounding& r, std::uint32_t sign, Plateau low, Plateau high,
                   std::vector<Plateau>& steps) {
  if (low.code == high.code) return;
  if (high.first - low.first == 1) {
    steps.push_back(high);
    return;
  }
  const std::uint32_t middle = low.first + (high.first - low.first) / 2;
  const Plateau between{middle, converted(to, r, middle | sign)};
  bisect(to, r, sign, low, between, steps);
  bisect(to, r, sign, between, high, steps);
}

/// All steps over the non-zero finite floats of one sign.
inline std::vector<Plateau> finite_steps(const FloatFormat& to, const Rounding& r, std::uint32_t sign) {
  const Plateau low{1, converted(to, r, 1 | sign)},
      high{float_infinity - 1, converted(to, r, (float_infinity - 1) | sign)};
  std::vector<Plateau> steps{low};
  bisect(to, r, sign, low, high, steps);
  return steps;
}

/// All steps over all floats of one sign: zero, the finite ones, infinity, the NaNs (which have one result while NaN
/// results are canonical).
inline std::vector<Plateau> all_steps(const FloatFormat& to, const Rounding& r, std::uint32_t sign) {
  std::vector<Plateau> steps{{0, converted(to, r, sign)}};
  const std::vector<Plateau> finite = finite_steps(to, r, sign);
  steps.insert(steps.end(), finite.begin(), finite.end());
  steps.push_back({float_infinity, converted(to, r, float_infinity | sign)});
  steps.push_back({float_infinity + 1, converted(to, r, (float_infinity + 1) | sign)});
  return steps;
}

}  // namespace oracle
