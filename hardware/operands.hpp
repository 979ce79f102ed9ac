// Operands to ask devices: every one of a task, a sample of them, and cases for matrix instructions, each kind with a
// way of going wrong in mind.
#pragma once

#include <halfulp/hardware/device.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp {

/// Which operands of a task a set holds.
enum class Inputs : std::uint8_t {
  all,     ///< every one, numbered in the order of the code words, the last operand fastest
  pairs,   ///< every pair of the first two operands with each of some third ones, in the order of these
  sample,  ///< boundary cases and random ones
  listed,  ///< those of a list
};

/// Operands of a task. Any part can be made at any time.
struct OperandSet {
  FloatFormat from;
  int arity = 1;
  Inputs kind = Inputs::all;
  std::uint64_t count = 0;
  std::uint64_t seed = 0;                  ///< of a sample
  std::vector<std::uint64_t> points = {};  ///< of a sample: code words that its boundary cases combine
  std::uint64_t boundary = 0;              ///< of a sample: how many of its cases, the first ones, are boundary cases
  std::shared_ptr<const OperandColumns> list = {};  ///< of a list: the operands
  std::string origin = {};                          ///< of a list: where it comes from, such as recorded:NAME
  std::vector<std::uint64_t> addends = {};          ///< of pairs: the third operands

  /// Whether their order is that of code words, so that fill_words makes them.
  bool counted() const { return kind == Inputs::all || kind == Inputs::pairs; }
  /// Whether they are all triples of a 16-bit format, more than a host goes through.
  bool all_triples() const;

  /// Writes the cases from `begin` on, as many as `a` holds. Leaves operands alone that the operation does not take.
  void fill(std::uint64_t begin, std::span<std::uint64_t> a, std::span<std::uint64_t> b,
            std::span<std::uint64_t> c) const;
  /// The same of counted operands, in words as wide as theirs: 8, 16 or 32 bits.
  template <class Word>
  void fill_words(std::uint64_t begin, std::span<Word> a, std::span<Word> b, std::span<Word> c) const;
};

/// The most cases that a host goes through, and the most that any device does.
inline constexpr std::uint64_t most_operands = std::uint64_t{1} << 32, most_triples = std::uint64_t{1} << 48;

inline bool OperandSet::all_triples() const { return kind == Inputs::all && count > most_operands; }

/// How many cases a task has; nothing beyond most_triples.
std::optional<std::uint64_t> number_of_operands(const Task& task);

/// Precondition: number_of_operands(task).
OperandSet all_operands(const Task& task);
/// Every pair with each of `addends`. Throws std::invalid_argument for a task without three operands, or of more than
/// 16 bits.
OperandSet pairs_with(const Task& task, std::vector<std::uint64_t> addends);
/// `count` third operands for that: zeros, the smallest and the largest subnormal and normal numbers, 1 and its
/// neighbours, infinities and NaN, of both signs, then others of the format's lattice in a fixed random order. Fewer
/// where it has no more.
std::vector<std::uint64_t> chosen_addends(const FloatFormat& f, std::uint64_t count);
/// `count` cases, or all of them where there are no more. Boundary cases come first: every combination of the format's
/// lattice and, in conversions, of what lies at, beside and halfway between values of the lattice of the result's
/// format. Where those combinations are more than half of the sample, a seeded choice of them makes up that half. The
/// rest is random. Half of the random pairs and triples have exponents so close that their digits meet, and many have
/// sparse fractions, which make ties: uniform codes rarely do either.
OperandSet sampled_operands(const Task& task, std::uint64_t count, std::uint64_t seed);
/// Those in the columns. Precondition: columns beyond the operation's arity are empty.
OperandSet listed_operands(const Task& task, OperandColumns columns, std::string origin);

/// Operands at which arithmetic goes wrong first, after Berkeley TestFloat: interesting exponents times interesting
/// fractions, both signs; zeros, subnormals, the largest values, infinities and NaN among them. `level` 0 is the small
/// set, for triples. Ascending, each once.
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

// Cases for matrix instructions.

enum class Tiles : std::uint8_t {
  random,      ///< any words
  near,        ///< finite numbers whose products and addend are close enough to meet
  cancelling,  ///< products that cancel each other, or the addend, except for a residue
  aligned,     ///< sparse significands, the small terms 0 to p + 16 places below the largest: where digits fall off
  subnormal,   ///< operands, products and addends around the smallest normal numbers
  special,     ///< zeros, infinities, NaNs of every kind and largest numbers among others
};

inline constexpr std::array<Named<Tiles>, 6> tile_kinds{{{"random", Tiles::random},
                                                         {"near", Tiles::near},
                                                         {"cancelling", Tiles::cancelling},
                                                         {"aligned", Tiles::aligned},
                                                         {"subnormal", Tiles::subnormal},
                                                         {"special", Tiles::special}}};

/// `count` cases of `k` products in the words of the shape, with scales where it takes them. Case i depends only on i
/// and the other arguments, not on `count`: it is the same on every machine. Precondition: k >= 1.
MatrixCases tiles(Tiles kind, const MatrixShape& shape, std::size_t k, std::size_t count, std::uint64_t seed);

}  // namespace halfulp
