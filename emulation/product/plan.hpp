// From a DotModel to what the vector kernels do, and what they need to know about operands.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <cstddef>
#include <optional>

namespace halfulp::products {

/// A stage for the kernels.
struct PlannedStage {
  FloatFormat format;
  Rounder rounder;  ///< rounder.fix is that of values beyond the largest; tiles that have none leave it out
  Direction direction;
};

struct Plan {
  PlannedStage product, accumulator, outer;
  bool odd_product, odd_sum;  ///< whatever the operands are
  bool odd_if_tiny;           ///< where products may be below float's normal numbers
  bool signless_zeros;        ///< zero results come without their sign
  bool signs_tell;            ///< the sign of a zero result follows from the signs of operands: negative_zero()
  bool redo_nan;              ///< NaN results have code words that the last stage alone does not say
  NanRule nan;                ///< of all NaN results otherwise

  /// The rule by which anything is added in the outer stage.
  StepRule addend_rule() const;

  /// The sign of a zero result, given signs of its products (sign of a times sign of b).
  ///
  /// Rounded sums of a format's values are zero only if exact. Outside toward-negative -0 comes of adding -0 to -0
  /// alone, so that a sum is -0 if and only if every product is -0: every sign is negative. Toward negative a sum is +0
  /// if and only if every one is +0.
  bool negative_zero(bool all_negative, bool all_positive) const {
    return outer.direction == Direction::down ? !all_positive : all_negative;
  }
};

/// Nothing where the scalar definition has to do everything. Precondition: dot_refusal(model) is empty.
std::optional<Plan> make_plan(const DotModel& model);

/// The rules of running sums and of sums of parts.
struct TileRules {
  StepRule running, outer;
};

/// Which rules a tile takes: what does not depend on its operands is worked out once.
class RulesOfTiles {
 public:
  RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k);
  /// Nothing where the scalar definition has to do it.
  std::optional<TileRules> operator()(const Extent& a, const Extent& b) const;

 private:
  TileRules base_;  ///< with the fixes of values beyond the largest
  double products_to_,
      sums_to_;  ///< products up to this magnitude fit into their format, sums of such products into theirs
  bool product_in_reach_, sum_in_reach_;  ///< what does not fit is not beyond the floats
  bool odd_if_tiny_;
};

}  // namespace halfulp::products
