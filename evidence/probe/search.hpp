// The parameters of a fused sum one by one, as integers, so that a search can go over them.
#pragma once

#include <halfulp/evidence/probe/questions.hpp>
#include <halfulp/hardware/device.hpp>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::probe {

enum class SumParameter : std::uint8_t {
  length,
  grouping,
  direction,
  alignment_bits,
  alignment,
  normalized,
  least_exponent,
  kept,
  rounding,
  flush_inputs,
  flush_outputs,
  zero,
  nan,
};

struct ParameterInfo {
  SumParameter parameter;
  std::string_view name;     ///< as FusedSum's member
  std::string_view meaning;  ///< a few words
};
inline constexpr std::array<ParameterInfo, 13> parameters{{
    {SumParameter::length, "length", "products that are added at once"},
    {SumParameter::grouping, "grouping", "which products along k one sum takes"},
    {SumParameter::direction, "direction", "which sum comes first"},
    {SumParameter::alignment_bits, "alignment_bits", "bits below the largest exponent that a term keeps"},
    {SumParameter::alignment, "alignment", "how a term is cut to them"},
    {SumParameter::normalized, "normalized_products", "whether a product's significand is brought to [1, 2) before"},
    {SumParameter::least_exponent, "least_exponent", "the largest exponent counts as at least this"},
    {SumParameter::kept, "kept", "fraction bits of the result"},
    {SumParameter::rounding, "rounding", "how the sum is rounded to them"},
    {SumParameter::flush_inputs, "flush_inputs", "whether subnormal operands count as zero"},
    {SumParameter::flush_outputs, "flush_outputs", "whether tiny results become zero"},
    {SumParameter::zero, "zero", "the sign of a zero"},
    {SumParameter::nan, "nan", "the code word of a NaN"},
}};
constexpr const ParameterInfo& info(SumParameter p) { return parameters[static_cast<std::size_t>(p)]; }

/// A parameter as an integer: lengths and exponents themselves, enumerators and flags their number, kept its fraction
/// bits.
std::int64_t get(const FusedSum& sum, SumParameter p);
void set(FusedSum& sum, SumParameter p, std::int64_t value);

/// The values that the probe tries, plainest first: lengths that divide k, 0 to 60 alignment bits, no least exponent or
/// one from below every term to 0, 1 to all fraction bits, every deterministic rounding mode. None for the NaN, which
/// is read off.
std::vector<std::int64_t> candidates(const MatrixShape& shape, SumParameter p);

/// A value for people: "16", "toward-zero", "none", "7FFFFFFF".
std::string text(const MatrixShape& shape, SumParameter p, std::int64_t value);

/// Of a product and of an addend in a shape: the least and the largest exponent, and that of the last bit that can be
/// set.
struct Reach {
  int least, largest, last;
};
Reach product_reach(const MatrixShape& shape, bool normalized);
Reach addend_reach(const MatrixShape& shape, bool normalized);

// What a device answered, and whether a model gives the same answers.

/// Questions in the order in which candidates are held against them. What refutes one moves to the front: it is likely
/// to refute the next, and most candidates cost one or two cases.
using QuestionOrder = std::vector<std::uint32_t>;

class Answers {
 public:
  /// Preconditions: as many answers as questions; all three outlive this.
  Answers(const MatrixShape& shape, const Questions& questions, std::span<const std::uint64_t> d)
      : shape_(shape), questions_(questions), d_(d) {}

  const MatrixShape& shape() const { return shape_; }
  const MatrixCases& cases() const { return questions_.cases; }
  std::size_t size() const { return d_.size(); }
  std::uint64_t operator[](std::size_t i) const { return d_[i]; }
  Topic topic(std::size_t i) const { return questions_.topics[i]; }

  /// The numbers of the questions that satisfy a predicate, all of them, and the first one.
  QuestionOrder chosen(const std::function<bool(std::size_t)>& predicate) const;
  QuestionOrder all() const;
  std::optional<std::size_t> first(const std::function<bool(std::size_t)>& predicate) const;

  /// Whether the model gives the device's answer to every question of an order.
  bool explained_by(const MatrixUnit& model, QuestionOrder& order) const;
  std::size_t differing(const MatrixUnit& model) const;
  std::uint64_t by_model(const MatrixUnit& model, std::size_t i) const {
    return mma(model, cases().products(i), cases().c[i]);
  }

 private:
  const MatrixShape& shape_;
  const Questions& questions_;
  std::span<const std::uint64_t> d_;
};

/// A model of one instruction of a shape. Precondition of its use: refusal() is empty, or the rule is no fused sum.
MatrixUnit model_of(const MatrixShape& shape, const Rule& rule, const FusedSum& sum);

// Which products are added at once, and in which order: read off the questions about order.

/// How an instruction's k products are divided into sums.
struct SumLayout {
  int length = 1;
  Grouping grouping = Grouping::consecutive;
  bool descending = false;
  /// The number of the sum, from 0 in their order, that product `at` of k goes into.
  std::size_t step(std::size_t at, std::size_t k) const;
};

/// The most fraction bits that C keeps on its way through sums of zeros, by the questions about only C; 0: not even
/// one.
int surviving_bits(const Answers& answers);

/// The layouts of fused sums that answers about order allow. C = 1 + 2^-w with w = surviving_bits() comes through +1
/// and -1 unless they are added in this order one after the other: the sum 2 + 2^-w in between has a bit more than is
/// kept.
std::vector<SumLayout> layouts(const Answers& answers, int surviving);

/// The questions whose answers cannot depend on a least exponent of 0 or below: what is added at first has an exponent
/// of at least 0, and so have all products but zeros.
QuestionOrder large_questions(const Answers& answers, const SumLayout& layout);

// Finding a model whose answers are the device's.

/// A fused sum that gives every answer, if there is one among the candidates (parameter.hpp). NaN, zero's sign, flushed
/// operands and the layout are read off; bits, modes and the least exponent are searched, first where the last does not
/// matter.
std::optional<MatrixUnit> find_fused(const Answers& answers);

/// The same for the other rules that are fused sums of their own kind (rules::halves_apart, rules::scaled_groups), and
/// every length of the rules that have no parameter but that.
std::vector<MatrixUnit> find_others(const Answers& answers);

}  // namespace halfulp::probe
