// Operands at which arithmetic goes wrong first, generated from the format.
#pragma once

#include <halfulp/formats/format.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace halfulp::verify {

/// Code words after Berkeley TestFloat: interesting exponents times interesting fractions, both signs; zeros, subnormals, the
/// largest values, infinities and NaN among them. `level` 0 is the small set, for triples. Ascending, each once.
inline std::vector<std::uint64_t> lattice(const FloatFormat& f, int level) {
  const std::uint64_t top = f.magnitude_mask() >> f.fraction_bits, ones = f.fraction_mask();
  const auto bias = static_cast<std::uint64_t>(f.bias), m = static_cast<std::uint64_t>(f.fraction_bits);
  std::vector<std::uint64_t> exponents{0, 1, bias - 1, bias, bias + 1, top - 1, top}, fractions{0, 1, ones, ones >> 1, (ones >> 1) + 1};
  if (level > 0) {
    exponents.insert(exponents.end(), {2, bias - m, bias - m - 1, bias + m, bias + m + 1, bias + 2, bias / 2, bias + bias / 2, top - 2});
    fractions.insert(fractions.end(), {ones - 1, (ones >> 1) + 2, (ones >> 1) - 1, ones / 3, ones / 5});
  }
  std::vector<std::uint64_t> codes;
  for (const auto e : exponents)
    for (const auto t : fractions)
      for (const bool sign : {false, true})
        if (e <= top && t <= ones) codes.push_back(f.with_sign((e << f.fraction_bits) | t, sign));
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

}  // namespace halfulp::verify
