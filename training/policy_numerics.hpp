// Who looks on while a network is trained.
#pragma once

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp/training/policy.hpp>
#include <halfulp/training/storage.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace halfulp::training {

/// One tensor as it was rounded.
struct Sighting {
  Site site;
  Role role;
  bool operand;                   ///< on its way into a product; else a result
  std::span<const float> values;  ///< after rounding
  const Tally* tally;             ///< what rounding did; null unless counts are wanted
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// Whether this step's roundings are to be counted, which takes time.
  virtual bool counts() const = 0;
  /// What is about to be rounded.
  virtual void before(const Storage&, std::span<const float>) {}
  /// Every tensor, in the order in which it comes into being; its name is not to be kept.
  virtual void see(const Sighting& sighting) = 0;
};

// A precision policy at work: operands are rounded, products summed as the policy's models do, results rounded.

/// Numerics<float> by a policy. A product takes its operands rounded as the policy says of their roles, in blocks along
/// k where they have any; sums the elements segment by segment as the model does; multiplies each segment's sum with
/// its scales, (sum sa) sb, and adds segments in fp32, one after the other; adds C, then the bias, in fp32; and rounds
/// the result for its role.
///
/// Straight-through operators (OperatorPrecision) keep what forward took until the next one: one backward pass belongs
/// to one forward pass.
///
/// Delayed scales come from earlier steps: end_step() takes this step's magnitudes into the histories. Stochastic
/// roundings draw from (seed, step, number of the rounding in the step), so that a run that goes on from a checkpoint
/// draws the same.
class PolicyNumerics : public Numerics<float> {
 public:
  using Operands = Numerics<float>::Operands;
  using Numerics<float>::product;
  /// The policy outlives this. `observer` may be null.
  PolicyNumerics(const Policy& policy, std::uint64_t seed, Observer* observer = nullptr);
  ~PolicyNumerics() override;

  void begin_step(std::uint64_t step);
  void end_step();

  void product(const Site& site, Product which, const Operands& x, std::span<const float> bias,
               std::span<float> d) override;
  void products(const Site& site, Product which, std::size_t count, const Operands& x, std::span<float> d) override;
  void cast(const Site& site, Role role, std::span<float> values) override;
  float sum(const Site& site, std::span<const float> values) const override;
  void column_sums(const Site& site, std::size_t columns, std::span<const float> values,
                   std::span<float> sums) const override;
  void inner(const Site& site, std::span<float> values) const override;

  /// The operators and layers that were met so far.
  std::vector<std::pair<OperatorKind, std::string>> sites() const;

  /// Histories of delayed scales, by tensor.
  Json state() const;
  /// Throws std::invalid_argument in one line that begins with the place, in `where`, of what state() does not write.
  void restore(const Json& state, const std::string& where);

 private:
  struct Layer;
  Layer& layer(const Site& site) const;
  const ProductModel* inside(const Site& site) const;
  /// Returns the magnitude that the scale goes by, if that is not the operand's own.
  std::optional<float> prepare(Layer& layer, const Site& site, Product which, Role role, std::span<const float> memory,
                               std::size_t rows, std::size_t k, bool in_columns, PolicyOperand& operand);
  void round(const Site& site, Role role, const Storage& storage, std::span<float> values);
  RandomStream next_random();

  const Policy& policy_;
  std::uint64_t seed_, step_ = 0, roundings_ = 0;
  Observer* observer_;
  bool strict_inside_ = false;  ///< whether any rule rounds inside operators
  mutable std::mutex mutex_;    ///< of layers_: `inner` and sums come from several threads
  mutable std::map<std::pair<OperatorKind, std::string>, std::unique_ptr<Layer>> layers_;
  PolicyOperand a_, b_;
};

}  // namespace halfulp::training
