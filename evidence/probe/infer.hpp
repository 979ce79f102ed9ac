// Which matrix unit is this? What the answers to the probe's questions say, and what they cannot say.
#pragma once

#include <halfulp/evidence/probe/search.hpp>

#include <span>
#include <string>
#include <vector>

namespace halfulp::probe {

/// Values from first to last, both included.
struct ValueRange {
  std::int64_t first, last;
};

/// A question that refutes another value of a parameter: the device's answer, and the one it would have given.
struct Refutation {
  std::size_t question;
  std::uint64_t answer;
  std::int64_t other;
  std::uint64_t other_answer;
};

/// What is known about one parameter.
struct Finding {
  SumParameter parameter;
  std::int64_t value;
  std::vector<ValueRange> values;     ///< with which, all others as found, every answer is the same; `value` among them
  std::string because;                ///< why no operands tell these values apart; empty where there is one
  bool proven = true;                 ///< or just that no question does
  std::vector<Refutation> witnesses;  ///< of the neighbours below and above that are excluded
  bool holds(std::int64_t v) const;
};

/// Several parameters changed at once, and every answer is the same: with this alignment of products normalised or not,
/// the first and the last number of alignment bits give it (and those between were not asked about one by one).
struct Alternative {
  RoundingMode alignment;
  bool normalized;
  bool exponent_moves;  ///< the least exponent goes with the bits, so that the last one kept in small sums stays where
                        ///< it is
  ValueRange bits;
  int least_exponent(const FusedSum& found, std::int64_t bits_there) const;
};

/// A model that gives every answer. Its `findings` are the parameters that its rule uses, each varied by itself.
struct InferredModel {
  MatrixUnit unit;
  std::vector<Finding> findings;
  std::vector<Alternative>
      alternatives;  ///< of fused sums; frequent where they take one product: of two terms only one is cut
};

struct Identification {
  std::vector<InferredModel>
      models;  ///< the plainest rule first; more than one where rules agree on everything that was asked
  std::vector<std::string> observed;  ///< a sentence each: what is read off without a model
  std::vector<std::string> rows;      ///< units of the table that give the same answers
  std::string nearest;  ///< where there is none: the one of this shape that differs least; empty if none has this shape
  std::size_t nearest_differs = 0;  ///< the number of answers
  std::size_t questions = 0;
  std::size_t unexplained =
      0;  ///< answers that no model gives: those the nearest unit differs in, or all; 0 if there is a model
};

/// Uses nothing but the answers: answers[i] is the device's to case i of questions(shape).
/// Throws std::invalid_argument if `cases` are not these questions or the lengths differ.
Identification infer(const MatrixShape& shape, const MatrixCases& cases, std::span<const std::uint64_t> answers);

/// Why a parameter may as well have another value, for any operands at all, in a model of a shape; empty if that is not
/// known.
std::string same_for_all_operands(const MatrixShape& shape, const MatrixUnit& model, SumParameter p,
                                  std::int64_t value);

/// One line: value or values, what it is, and why there is more than one.
std::string sentence(const MatrixShape& shape, const Finding& finding);

/// Operands and addend of a case, zeros left out: "a[0]*b[0] = 1*1, c = 2^-25".
std::string operands_text(const MatrixShape& shape, const MatrixCases& cases, std::size_t question);

// Settings of several parameters at once that give the same answers.

/// Other alignments, and products normalised or not, with the range of alignment bits that goes with each; the model's
/// own setting is not among them unless its range is wider together with the least exponent. Empty for other rules than
/// fused.
std::vector<Alternative> alternatives(const Answers& answers, const MatrixUnit& model);

}  // namespace halfulp::probe
