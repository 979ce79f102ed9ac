// What a witness is looked for between: computations of one code word from others, by a text that names them.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/product/model.hpp>
#include <halfulp/emulation/cast/profile.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace halfulp::witness {

/// Operands in order: `repeated` any number of times (the terms of a vector), then `fixed`.
struct OperandShape {
  std::vector<FloatFormat> repeated, fixed;
  bool operator==(const OperandShape&) const = default;
  std::size_t terms(std::size_t operands) const {
    return repeated.empty() ? 0 : (operands - fixed.size()) / repeated.size();
  }
  std::size_t operands(std::size_t terms) const { return terms * repeated.size() + fixed.size(); }
  /// The format of operand i of a case with that many operands.
  const FloatFormat& format(std::size_t i, std::size_t operands) const {
    const std::size_t vector = operands - fixed.size();
    return i < vector ? repeated[i % repeated.size()] : fixed[i - vector];
  }
};

/// An operation in a format and a rounding.
struct OperationSubject {
  Operation operation;
  FloatFormat format, to;  ///< `to`: of convert
  Rounding rounding;
};
/// A profile's conversion.
struct CastSubject {
  const Profile* profile;
  const CastRule* rule;
  FloatFormat from;
};
/// A matrix unit: terms are pairs of A and B, and C is a fixed operand. A unit with scales has two more, the scale of
/// all of A and that of all of B.
struct UnitSubject {
  std::shared_ptr<const MatrixUnit> unit;
};
/// Dot products by a model, nothing added: terms are pairs of A and B. Or sums by a model: terms are numbers of its
/// input format.
struct DotSubject {
  ProductModel model;
  bool products;
};

struct Subject {
  std::string name;
  std::variant<OperationSubject, CastSubject, UnitSubject, DotSubject> what;
  OperandShape shape;
  FloatFormat result;
  std::function<std::uint64_t(std::span<const std::uint64_t>)> evaluate;
  /// Two operands of at most 16 bits over arrays; empty where there is no such function.
  std::function<void(std::span<const std::uint16_t>, std::span<const std::uint16_t>, std::span<std::uint16_t>)> pairs;
};

/// Reads one of these texts, where MODEL is a text of parse_product_model; sums take no matrix unit.
///
///     OP:FORMAT[:MODE][:saturate][:flush-inputs][:flush-outputs]   add:fp16, fma:e4m3:toward-zero:saturate
///     convert:FROM:TO[:MODE]...                                    convert:fp32:bf16:toward-zero
///     PROFILE:FROM:TO                                              ml_dtypes:fp32:e4m3
///     UNIT                                                         hopper.mma.fp16.fp32
///     dot:MODEL                                                    dot:fp16,order=pairwise, dot:hopper.mma.fp16.fp32
///     sum:MODEL                                                    sum:fp16,comp=kahan
///
/// Throws std::invalid_argument in one line for anything else, for comparisons, for integers, for stochastic rounding,
/// and for the dot products of a unit with scales.
Subject parse_subject(std::string_view text);

/// The subject that a unit is, of the table or not, under a name.
Subject unit_subject(std::string name, MatrixUnit unit);

/// Why two subjects have no common operands, in one line; empty if they do.
std::string refusal(const Subject& a, const Subject& b);

}  // namespace halfulp::witness
