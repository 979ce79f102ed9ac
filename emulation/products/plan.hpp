// From a DotModel to what the vector kernels do, and what they need to know about operands.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/products/kernels.hpp>

#include <cstddef>
#include <limits>
#include <optional>

namespace halfulp::products {

/// What is known of the operands of a tile: magnitudes of finite numbers, and whether there are others.
struct Extent {
  float max = 0;                                  ///< 0: all are zeros
  float min = std::numeric_limits<float>::max();  ///< of those that are not zero
  bool finite = true;
};

/// A stage for the kernels.
struct PlannedStage {
  FloatFormat format;
  Rounder rounder;  ///< rounder.fix is that of values beyond the largest; tiles that have none leave it out
  Direction direction;
};

struct Plan {
  PlannedStage product, accumulator, outer;
  bool odd;             ///< whatever the operands are
  bool odd_if_tiny;     ///< where products may be below float's normal numbers
  bool signless_zeros;  ///< zero results come without their sign
  bool signs_tell;      ///< the sign of a zero result follows from the signs of operands: negative_zero()
  bool redo_nan;        ///< NaN results have code words that the last stage alone does not say
  NanRule nan;          ///< of all NaN results otherwise

  /// The rule of running sums and that of sums of parts for a tile; nothing where the scalar definition has to do it.
  struct Rules {
    StepRule running, outer;
  };
  std::optional<Rules> rules(const DotModel& model, std::size_t k, const Extent& a, const Extent& b) const;
  /// The rule by which anything is added in the outer stage.
  StepRule addend_rule() const;

  /// The sign of a zero result, given signs of its products (sign of a times sign of b).
  ///
  /// Rounded sums of a format's values are zero only if exact. Outside toward-negative -0 comes of adding -0 to -0 alone, so that a sum is -0
  /// if and only if every product is -0: every sign is negative. Toward negative a sum is +0 if and only if every one is +0.
  bool negative_zero(bool all_negative, bool all_positive) const { return outer.direction == Direction::down ? !all_positive : all_negative; }
};

/// Nothing where the scalar definition has to do everything. Precondition: dot_refusal(model) is empty.
std::optional<Plan> make_plan(const DotModel& model);

}  // namespace halfulp::products
