// The plan of a DotModel's products by vectors: the rule of each step, and what it depends on in the operands.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <cstddef>
#include <optional>

namespace halfulp::products {

/// A stage for the kernels.
struct PlannedStage {
  FloatFormat format;
  Rounder rounder;  ///< rounder.fix applies to values beyond the largest; tiles without such values omit it
  Direction direction;
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

/// The rules of running sums and of sums of parts.
struct TileRules {
  StepRule running, outer;
};

/// Chooses the rules of a tile. The constructor computes what does not depend on the tile's operands.
class RulesOfTiles {
 public:
  RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k);
  /// The rules of a tile, made in `room` where they are not those of all; null where the scalar definition must compute
  /// the tile.
  const TileRules* operator()(const MagnitudeRange& a, const MagnitudeRange& b, TileRules& room) const;

 private:
  bool fuses(const MagnitudeRange& a, const MagnitudeRange& b) const;

  TileRules base_;   ///< with the fixes of values beyond the largest
  TileRules fused_;  ///< the same, but fma does what multiplying and adding do, where products are exact
  std::optional<TileRules> halves_, normal_;
  double products_to_,
      sums_to_;           ///< products up to this magnitude fit into their format, sums of such products into theirs
  double normal_to_ = 0;  ///< sums of products up to this magnitude have an aligner
  double in_floats_to_;   ///< sums of products up to this magnitude stay among the floats
  double watched_to_;     ///< sums of products up to this magnitude are finite without a fix
  double normal_from_;    ///< products from this magnitude on are no subnormal numbers of their format
  bool product_in_reach_, sum_in_reach_;  ///< what does not fit is not beyond the floats
  bool only_finite_;                      ///< vectors do not know what becomes of infinities
  bool odd_if_tiny_;
  bool may_fuse_;
  bool always_;  ///< the rules of all tiles are the same but for that
};

}  // namespace halfulp::products
