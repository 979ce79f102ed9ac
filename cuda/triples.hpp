// All 2^48 operand triples of a 16-bit fma, by pairs of magnitudes of a and b.
//
// A pair (x, y) with x <= y and every c are computed once by halfulp's fma and held against the instruction on every
// triple that follows from it by signs and by exchanging a and b: (x, y, c), (-x, -y, c), (-x, y, -c), (x, -y, -c), and
// the same with y and x. So the instruction computes all 2^48. Our own arithmetic is only assumed to have these
// symmetries, which tests/cuda/triples_test.cpp proves on 8-bit formats and samples of 16-bit ones.
#pragma once

#include <halfulp/emulation/arithmetic.hpp>

#include <cstdint>

namespace halfulp::verify {

inline constexpr std::uint64_t magnitudes = std::uint64_t{1} << 15;
inline constexpr std::uint64_t all_pairs = magnitudes * (magnitudes + 1) / 2;
/// One piece of work: 0.75 seconds of an H100.
inline constexpr std::uint64_t pairs_per_chunk = std::uint64_t{1} << 20;
inline constexpr std::uint64_t triple_chunks = (all_pairs + pairs_per_chunk - 1) / pairs_per_chunk;
/// Witnesses that a launch keeps.
inline constexpr int max_triples = 64;

struct CodePair {
  std::uint32_t x, y;  ///< x <= y
};

/// Pair number n of all_pairs: y = 0: (0, 0); y = 1: (0, 1), (1, 1); ...
constexpr CodePair pair_of(std::uint64_t n) {
  std::uint64_t y = 0;
  for (std::uint64_t bit = magnitudes / 2; bit != 0; bit /= 2)
    if ((y + bit) * (y + bit + 1) / 2 <= n) y += bit;
  return {static_cast<std::uint32_t>(n - y * (y + 1) / 2), static_cast<std::uint32_t>(y)};
}

/// Triples that a pair stands for, of one c.
constexpr std::uint64_t weight(CodePair p) { return p.x == p.y ? 4 : 8; }
/// Triples that the pairs of [begin, begin + count) stand for.
constexpr std::uint64_t triples_of(std::uint64_t begin, std::uint64_t count) {
  // Pairs of equal magnitudes are the last of each y: number y(y+3)/2.
  const auto equal_below = [](std::uint64_t n) { return n == all_pairs ? magnitudes : std::uint64_t{pair_of(n).y}; };
  const std::uint64_t equal = equal_below(begin + count) - equal_below(begin);
  return (8 * count - 4 * equal) << 16;
}

/// fma(-a, b, -c) from ours = fma(a, b, c): its negative, but for a NaN and an exact zero of opposite terms, which is
/// +0 both ways. Round to nearest; ours has a canonical NaN. `opposite`: the product and c have different signs.
constexpr std::uint64_t negated(const FloatFormat& f, Rounded ours, bool opposite) {
  if (f.is_nan(ours.code)) return ours.code;
  if (f.is_zero(ours.code) && opposite && ours.flags == 0) return ours.code;
  return ours.code ^ f.sign_mask();
}

/// What a triple adds to the digest of its launch, a sum modulo 2^64 (any order gives the same): the finalizer of
/// splitmix64 (Steele, Lea & Flood 2014) of pair number, c and our code word.
constexpr std::uint64_t digest_term(std::uint64_t pair, std::uint64_t c, std::uint64_t code) {
  std::uint64_t z = ((pair << 16 | c) << 16 | code) + 0x9e37'79b9'7f4a'7c15;
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

/// One pair and one c: calls hardware(a, b, c) on what they stand for, and differs(a, b, c, ours, theirs) where it
/// disagrees, NaN made canonical. Returns our code word of (x, y, c).
template <FloatFormat f, class Hardware, class Differs>
constexpr std::uint64_t check_triple(CodePair p, std::uint32_t c, Hardware&& hardware, Differs&& differs) {
  constexpr std::uint32_t sign = static_cast<std::uint32_t>(f.sign_mask());
  const Rounded ours = fma<std::uint64_t>(f, Rounding{}, p.x, p.y, c);
  const auto flipped = static_cast<std::uint32_t>(negated(f, ours, (c & sign) != 0));
  const auto check = [&](std::uint32_t a, std::uint32_t b, std::uint32_t z, std::uint32_t expected) {
    std::uint32_t theirs = hardware(a, b, z);
    if (f.is_nan(theirs)) theirs = static_cast<std::uint32_t>(f.canonical_nan());
    if (theirs != expected) differs(a, b, z, expected, theirs);
  };
  const auto both = [&](std::uint32_t a, std::uint32_t b) {
    check(a, b, c, static_cast<std::uint32_t>(ours.code));
    check(a | sign, b | sign, c, static_cast<std::uint32_t>(ours.code));
    check(a | sign, b, c ^ sign, flipped);
    check(a, b | sign, c ^ sign, flipped);
  };
  both(p.x, p.y);
  if (p.x != p.y) both(p.y, p.x);
  return ours.code;
}

/// A triple on which the instruction disagrees.
struct TripleWitness {
  std::uint32_t a, b, c, ours, theirs;
};

}  // namespace halfulp::verify
