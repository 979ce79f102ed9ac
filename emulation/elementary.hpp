// Operations that IEEE 754-2019 recommends (9.2), correctly rounded in every mode and format: a measure for the
// functions of devices, which are allowed to err. They use integers only, so every machine gives the same results.
#pragma once

#include <halfulp/emulation/operand.hpp>

namespace halfulp {

/// rSqrt, 1 / sqrt(a): of +-0 it is +-Inf with divide-by-zero, of +Inf +0, of negative numbers invalid.
/// Operands, `random` and precondition as in arithmetic.hpp.
Rounded rsqrt(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random = 0);

/// exp, e^a: of +-0 it is 1, of -Inf +0, of +Inf +Inf; everything else is inexact.
/// Operands, `random` and precondition as in arithmetic.hpp.
Rounded exp(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random = 0);

/// log2, the logarithm to base 2: of 1 it is +0, of other powers of two their exponent, of +-0 -Inf with
/// divide-by-zero, of +Inf +Inf, of negative numbers invalid (IEEE 754-2019, 9.2.1); everything else is inexact.
/// Operands, `random` and precondition as in arithmetic.hpp.
Rounded log2(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t random = 0);

/// e^x of x = (-1)^negative * significand * 2^exponent cut to at least `bits` significant bits, and one sticky bit
/// below them. Preconditions: 0 < |x| < 2^12, 32 <= bits <= 120. Fixed-point numbers of `first_width` fraction bits are
/// tried first, wider ones where they leave the last bit open; the result does not depend on it.
Exact<uint128> exp_bits(bool negative, std::uint64_t significand, int exponent, int bits, int first_width = 120);

/// log2(significand * 2^exponent) likewise. Preconditions: no power of two, significand < 2^62, |exponent| < 2^20.
Exact<uint128> log2_bits(std::uint64_t significand, int exponent, int bits, int first_width = 120);

}  // namespace halfulp
