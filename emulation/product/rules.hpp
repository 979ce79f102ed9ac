// The rules by which a tile is computed: the plan's, less what its operands do not need.
#pragma once

#include <halfulp/emulation/product/plan.hpp>

#include <cstddef>
#include <memory>
#include <optional>

namespace halfulp::products {

/// The rules of running sums and of sums of parts.
struct TileRules {
  StepRule running, outer;
  bool signless_zeros = false;  ///< running sums lose the sign of zeros,
  bool signs_tell = true;       ///< which then follows from the signs of operands (Plan::negative_zero)
};

/// Chooses the rules of a tile. The constructor computes what does not depend on the tile's operands.
class RulesOfTiles {
 public:
  RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k);
  /// The rules of a tile, made in `room` where they are not those of all; null where the scalar definition must compute
  /// the tile.
  const TileRules* operator()(const MagnitudeRange& a, const MagnitudeRange& b, TileRules& room) const;

  /// Whether a tile may want its operands as halves.
  bool takes_halves() const { return halves_ || (unflushed_ && unflushed_->takes_halves()); }

 private:
  bool fuses(const MagnitudeRange& a, const MagnitudeRange& b) const;
  double unit(const MagnitudeRange& a, const MagnitudeRange& b) const;

  TileRules base_;   ///< with the fixes of values beyond the largest
  TileRules fused_;  ///< the same, but fma does what multiplying and adding do, where products are exact
  std::optional<TileRules> halves_, normal_, converted_;
  double products_to_,
      sums_to_;           ///< products up to this magnitude fit into their format, sums of such products into theirs
  double normal_to_ = 0;  ///< sums of products up to this magnitude have an aligner
  double in_floats_to_;   ///< sums of products up to this magnitude stay among the floats
  double watched_to_;     ///< sums of products up to this magnitude stay among the floats, rounded without a fix
  double least_product_;  ///< the smallest number of the products' format
  double normal_from_;    ///< products from this magnitude on are no subnormal numbers of their format
  bool product_in_reach_, sum_in_reach_;  ///< what does not fit is not beyond the floats
  bool only_finite_;                      ///< vectors do not know what becomes of infinities
  bool odd_if_tiny_;
  bool may_fuse_;
  bool always_;                              ///< the rules of all tiles are the same but for that
  int product_bits_;                         ///< precision of a rounded product; 0 where fma adds products
  double least_normal_;                      ///< of the stages of running sums
  std::unique_ptr<RulesOfTiles> unflushed_;  ///< of tiles where nothing is tiny, if the model flushes what is
};

}  // namespace halfulp::products
