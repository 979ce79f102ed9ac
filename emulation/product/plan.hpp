// The plan of a DotModel's products by vectors: the rule of each step, and what it depends on in the operands.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <cstddef>
#include <optional>

namespace halfulp::products {

/// The exponent of a format's smallest subnormal number.
inline int lowest(const FloatFormat& f) { return f.emin() - f.fraction_bits; }
/// The smallest normal number of a format that fp32 holds.
inline float least_normal(const FloatFormat& f) { return static_cast<float>(FloatFormat::power_of_two(f.emin())); }
/// Whether the largest value is a multiple of the smallest normal number. Where products are such multiples, so is
/// every result that does not overflow; if the largest value is one too, no difference from it is tiny either.
inline bool max_is_normal_multiple(const FloatFormat& f) { return f.emax() - f.fraction_bits >= f.emin(); }

/// A stage for the kernels.
struct PlannedStage {
  FloatFormat format;
  Rounder rounder;  ///< rounder.fix applies to values beyond the largest; tiles without such values omit it
  Direction direction;
};

/// What becomes zero of operands on their way into the multiplier: those below a limit, and of these some that are so
/// in a format without -0.
struct Flushed {
  float below = 0, unsigned_below = 0;
};

/// What vectors do for a model.
struct Plan {
  PlannedStage product, accumulator, outer;
  bool odd_product, odd_sum;       ///< round to odd, for all operands
  bool odd_if_tiny;                ///< round products to odd where they may be below float's normal numbers
  bool signless_zeros;             ///< kernels lose the sign of zero results
  bool signs_tell;                 ///< the sign of a zero result follows from the signs of operands: negative_zero()
  bool redo_nan;                   ///< the last stage alone does not determine the code words of NaN results
  NanRule nan;                     ///< of all NaN results otherwise
  std::optional<StepRule> halves;  ///< running sums in halves, for operands that these serve
  bool exact_sums = false;         ///< floats hold the sums of two values
  Draws draws = {};                ///< of stochastic roundings
  Flushed flushed_a = {}, flushed_b = {};  ///< of the operands

  /// Whether operations flush their results.
  bool flushes() const { return accumulator.rounder.flushes(); }

  /// The rule by which anything is added in the outer stage.
  StepRule addend_rule() const;

  /// Whether a zero result is -0, given the signs of its products (sign of a times sign of b).
  ///
  /// A rounded sum of a format's values is zero only if it is exact. In all modes but toward-negative, -0 arises only
  /// from -0 + -0. So a sum is -0 if and only if every product is -0, that is, every sign is negative. Toward negative,
  /// a sum is +0 if and only if every product is +0.
  bool negative_zero(bool all_negative, bool all_positive) const {
    return outer.direction == Direction::down ? !all_positive : all_negative;
  }
};

/// The plan of a model; none where the scalar definition must do everything. Precondition: dot_refusal(model) is empty.
std::optional<Plan> make_plan(const DotModel& model);

}  // namespace halfulp::products
