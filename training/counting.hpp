// What a watched training counts in arrays, by vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace halfulp::training {

/// How many elements are zeros, of either sign.
std::uint64_t count_zeros(std::span<const float> x);

/// Elements that are NaN, and those that are subnormal in fp32.
struct SpecialFloats {
  std::uint64_t nan = 0, subnormal = 0;
};
SpecialFloats count_special(std::span<const float> x);

/// What became of elements when they were rounded.
struct RoundedElements {
  std::uint64_t nan = 0;      ///< NaN afterwards
  std::uint64_t to_zero = 0;  ///< 0 afterwards, and not before
  std::uint64_t beyond = 0;   ///< whose magnitude was above `most` before
  std::uint64_t changed = 0;  ///< another number afterwards
};
/// Of a row of blocks: `most` has a limit for each `block` elements. Preconditions: arrays of one size, and a limit for
/// each block that begins in them.
RoundedElements count_rounded(std::span<const float> before, std::span<const float> after, std::size_t block,
                              const float* most);

/// Adds to counts[e] the elements whose biased exponent is e, zeros and subnormal ones to counts[0].
void count_exponents(std::span<const float> x, std::uint64_t* counts);

/// A row of an operand (of B: a column), along k, in double: as it came, and as the model takes it.
struct ProductLine {
  const double *came, *taken;
};

/// The sums of the products of what came and of what is taken, and of the latter's magnitudes. Each is the sum of four
/// partial sums of every fourth product, (0 + 1) + (2 + 3); the first of them starts from `first`, or its magnitude.
struct ThreeSums {
  double came, taken, size;
};
/// sums[r] = those of row a[r] and b, of `count` elements.
void sum_products(std::span<const ProductLine> a, const ProductLine& b, std::size_t count, double first,
                  ThreeSums* sums);

}  // namespace halfulp::training
