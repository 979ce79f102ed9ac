// What a verification is run on: every input, or a sample of boundary cases and random ones; any part of either can be
// made at any time.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/format.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace halfulp::verify {

/// Inputs are numbered in the order of their code words, the last operand fastest.
struct Inputs {
  FloatFormat from;
  int arity = 1;
  bool exhaustive = true;
  std::uint64_t count = 0;
  std::uint64_t seed = 0;                  ///< of a sample
  std::vector<std::uint64_t> points = {};  ///< of a sample: code words of which its boundary cases are made
  std::uint64_t boundary = 0;              ///< of a sample: how many of its cases, the first ones, are boundary cases

  /// The operands of the inputs from `begin` on; those that the operation does not take are left alone.
  void fill(std::uint64_t begin, std::span<std::uint64_t> a, std::span<std::uint64_t> b,
            std::span<std::uint64_t> c) const;
};

/// What a host verifies at most, and what anything does.
inline constexpr std::uint64_t most_inputs = std::uint64_t{1} << 32, most_triples = std::uint64_t{1} << 48;

/// How many inputs a task has; nothing beyond most_triples.
std::optional<std::uint64_t> number_of_inputs(const Task& task);

/// Precondition: number_of_inputs(task).
Inputs all_inputs(const Task& task);
/// `count` cases, or all of them where there are no more. Boundary cases come first: every combination of the format's
/// lattice (lattice.hpp) and, in conversions, of what lies at, beside and halfway between values of the lattice of the
/// result's format; of combinations that are more than half of the sample, a seeded choice makes up that half. The rest
/// is random. Half of the random pairs and triples have exponents so close that their digits meet, and many have sparse
/// fractions, which make ties: uniform codes rarely do either.
Inputs sampled_inputs(const Task& task, std::uint64_t count, std::uint64_t seed);

// Operands at which arithmetic goes wrong first, generated from the format.

/// Code words after Berkeley TestFloat: interesting exponents times interesting fractions, both signs; zeros,
/// subnormals, the largest values, infinities and NaN among them. `level` 0 is the small set, for triples. Ascending,
/// each once.
inline std::vector<std::uint64_t> lattice(const FloatFormat& f, int level) {
  const std::uint64_t top = f.magnitude_mask() >> f.fraction_bits, ones = f.fraction_mask();
  const auto bias = static_cast<std::uint64_t>(f.bias), m = static_cast<std::uint64_t>(f.fraction_bits);
  std::vector<std::uint64_t> exponents{0, 1, bias - 1, bias, bias + 1, top - 1, top},
      fractions{0, 1, ones, ones >> 1, (ones >> 1) + 1};
  if (level > 0) {
    exponents.insert(exponents.end(),
                     {2, bias - m, bias - m - 1, bias + m, bias + m + 1, bias + 2, bias / 2, bias + bias / 2, top - 2});
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
