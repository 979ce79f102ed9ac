// An expression computed in a format: every number and every operation rounded.
#pragma once

#include <halfulp/commands/expression.hpp>
#include <halfulp/commands/terminal.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace halfulp::cli {

/// A number that was rounded, or an operation on rounded operands.
struct CalculationStep {
  std::string text;  ///< as written: "0.1", "0.1 + 0.2"
  Rounded result;
  std::optional<Known> error;  ///< result minus what it is of these operands without rounding, where both are finite
  std::uint64_t left_out = 0;  ///< not a step: stands for so many of a long sum that are not kept
};

/// What became of an expression in a format.
struct Calculation {
  FloatFormat format;
  Rounding rounding;
  std::vector<CalculationStep> steps;  ///< in the order of computing; what is there twice counts once unless
                                       ///< rounding is stochastic
  Rounded result;                      ///< of the whole; flags of all steps
  std::optional<Known> exactly;        ///< the whole without any rounding, code words and infinities apart
  /// The result minus that; none where either is not finite.
  std::optional<Known> error() const;
  /// Whether the result is right although steps on the way were not.
  bool errors_cancel() const;
};

/// Computes it, with a random number for each step of a stochastic rounding. Throws std::invalid_argument in one line
/// for formats without arithmetic and code words too wide for the format.
Calculation calculate(const Expression& expression, const FloatFormat& format, const Rounding& rounding,
                      std::uint64_t seed);

/// Several formats side by side or, of one or with `trace`, all steps. At most 80 columns for formats of up to 32 bits.
std::string calculation_text(const Expression& expression, const std::vector<Calculation>& calculations, bool trace);
nlohmann::ordered_json to_json(const Expression& expression, const std::vector<Calculation>& calculations);

}  // namespace halfulp::cli
