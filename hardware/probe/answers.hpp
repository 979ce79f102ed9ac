// What a device answered, and whether a model gives the same answers.
#pragma once

#include <halfulp/hardware/probe/parameter.hpp>
#include <halfulp/hardware/probe/questions.hpp>

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace halfulp::probe {

/// Questions in the order in which candidates are held against them. What refutes one moves to the front: it is likely to
/// refute the next, and most candidates cost one or two cases.
using Order = std::vector<std::uint32_t>;

class Answers {
 public:
  /// Preconditions: as many answers as questions; all three outlive this.
  Answers(const MatrixShape& shape, const Questions& questions, std::span<const std::uint64_t> d) : shape_(shape), questions_(questions), d_(d) {}

  const MatrixShape& shape() const { return shape_; }
  const MatrixCases& cases() const { return questions_.cases; }
  std::size_t size() const { return d_.size(); }
  std::uint64_t operator[](std::size_t i) const { return d_[i]; }
  Topic topic(std::size_t i) const { return questions_.topics[i]; }

  /// The numbers of the questions that satisfy a predicate, all of them, and the first one.
  Order chosen(const std::function<bool(std::size_t)>& predicate) const;
  Order all() const;
  std::optional<std::size_t> first(const std::function<bool(std::size_t)>& predicate) const;

  /// Whether the model gives the device's answer to every question of an order.
  bool explained_by(const MatrixUnit& model, Order& order) const;
  std::size_t differing(const MatrixUnit& model) const;
  std::uint64_t by_model(const MatrixUnit& model, std::size_t i) const { return mma(model, cases().products(i), cases().c[i]); }

 private:
  const MatrixShape& shape_;
  const Questions& questions_;
  std::span<const std::uint64_t> d_;
};

/// A model of one instruction of a shape. Precondition of its use: refusal() is empty, or the rule is no fused sum.
MatrixUnit model_of(const MatrixShape& shape, const Rule& rule, const FusedSum& sum);

}  // namespace halfulp::probe
