// What the probe asks a matrix unit: the same operands for every device of a shape, independent of earlier answers, so
// that one launch, or a recording, answers everything.
#pragma once

#include <halfulp/hardware/device.hpp>

#include <array>
#include <optional>
#include <string_view>
#include <vector>

namespace halfulp::probe {

/// What a question is for. The order is the one in which they are asked.
enum class Topic : std::uint8_t {
  special,    ///< NaN, Inf, overflow
  zero,       ///< signs of zeros
  subnormal,  ///< subnormal operands and results
  addend,     ///< only C, every product 0: 1 + 2^-s and the like
  order,      ///< C = 1 + 2^-s, +1 at one place, -1 at another: which is added first, or are both added at once?
  cancel,     ///< two products that cancel, and a small third term
  pair,       ///< one product and C
  rounding,   ///< a large C and a product near its last place
  crowd,      ///< every product at work, exponents large enough that no e0 below 0 matters
  small,      ///< sums whose terms are all small
  scattered,  ///< random code words
};
inline constexpr std::array<std::string_view, 11> topic_names{
    "special", "zero", "subnormal", "addend", "order", "cancel", "pair", "rounding", "crowd", "small", "scattered"};

struct Questions {
  MatrixCases cases;
  std::vector<Topic> topics;  ///< of each case
};

/// The questions for units of a shape: they depend on nothing else. Some thousands of cases, k words each.
/// Precondition: formats with zero, k >= 1.
Questions ask(const MatrixShape& shape);

/// The same without their topics.
inline MatrixCases questions(const MatrixShape& shape) { return ask(shape).cases; }

// Building questions: words from values, products of a wanted exponent.

/// One question at a time, all zeros (and scales 1) to begin with; ask() appends it and starts the next.
class Asker {
 public:
  explicit Asker(const MatrixShape& shape);

  /// Exponents t of products 2^t of two normal operands: [least_power(), largest_power()]. Scales widen the range.
  int least_power() const { return least_; }
  /// The same of subnormal operands, which product() takes for what is below least_power().
  int smallest_power() const { return least_ - shape_.a.fraction_bits - shape_.b.fraction_bits; }
  int largest_power() const { return largest_; }

  /// Product number `at` := (-1)^negative * (x * 2^i) * (y * 2^j) with i + j = t; x and y in [1, 2) and fractions of
  /// the operands' formats. False, and nothing is done, where no operands give that, or only subnormal ones and x or y
  /// is not 1.
  bool product(std::size_t at, int t, bool negative = false, double x = 1, double y = 1);
  /// Scales a block by 2^power: products put there have their exponents with it. False where no scales give that.
  bool scale_by(std::size_t block, int power);
  void words(std::size_t at, std::uint64_t a, std::uint64_t b) { a_[at] = a, b_[at] = b; }
  void scales(std::size_t block, std::uint64_t a, std::uint64_t b) { scale_a_[block] = a, scale_b_[block] = b; }
  /// C := x. False, and nothing is done, where the format has no such number.
  bool addend(double x);
  void addend_code(std::uint64_t code) { c_ = code; }
  void ask(Topic topic);
  void clear();  ///< forgets the question that was begun

  const MatrixShape& shape() const { return shape_; }
  std::size_t k() const { return a_.size(); }
  std::size_t blocks() const { return scale_a_.size(); }
  /// A number that depends on how often it was asked for: Philox, stream 0.
  std::uint64_t random();
  Questions take() && { return std::move(questions_); }

 private:
  MatrixShape shape_;
  int least_, largest_;
  std::vector<std::uint64_t> a_, b_, scale_a_, scale_b_;
  std::vector<std::optional<int>>
      powers_;  ///< of two, that a block's scales multiply its products by, once one was put there
  std::uint64_t c_ = 0, drawn_ = 0;
  Questions questions_;
};

/// x as a word of a format. Precondition: it is a value of the format.
std::uint64_t word_of(const FloatFormat& f, double x);

/// Fraction bits of C that sweeps go over: all of them, of FP64 the first 24.
int swept_bits(const FloatFormat& accumulator);

// The questions of each topic, in questions_*.cpp.
void ask_specials(Asker& q);
void ask_zeros(Asker& q);
void ask_subnormals(Asker& q);
void ask_addends(Asker& q);
void ask_order(Asker& q);
void ask_cancellations(Asker& q);
void ask_pairs(Asker& q);
void ask_roundings(Asker& q);
void ask_crowds(Asker& q);
void ask_small(Asker& q);
void ask_scattered(Asker& q);

}  // namespace halfulp::probe
