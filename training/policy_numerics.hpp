// A precision policy at work, and the observer of what it rounds.
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

/// One rounded tensor.
struct Sighting {
  Site site;
  Role role;
  bool operand;                   ///< an operand of a product; else a result
  std::span<const float> values;  ///< after rounding
  const Tally* tally;             ///< what rounding did; null unless counts() is true
};

/// Some products of one size, multiplied: what came in, what the model took, what came out.
struct ProductSighting {
  Site site;
  Product which;
  std::size_t count;              ///< products, one after the other
  const FloatOperands& x;         ///< of the first product; A and B as they were before rounding
  const PolicyOperand &a, &b;     ///< of all products, as the model takes them
  std::span<const float> bias;    ///< a row, or empty
  std::span<const float> sums;    ///< D as the model and the bias made it
  std::span<const float> result;  ///< D as it was rounded for its role; of straight-through gradients, cut before that
  const ProductModel& model;
};

/// Sees every tensor that a training rounds.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Whether to count this step's roundings, which takes time.
  virtual bool counts() const = 0;
  /// Whether to call see_product() in this step, which takes time and memory.
  virtual bool measures() const { return false; }
  /// Called before a tensor is rounded.
  virtual void before(const Site&, Role, const Storage&, std::span<const float>) {}
  /// Called after a product, if measures().
  virtual void see_product(const ProductSighting&) {}
  /// Called for every tensor, in the order of the computation. The site's name is only valid during the call.
  virtual void see(const Sighting& sighting) = 0;
};

/// Numerics<float> by a policy. A product rounds its operands for their roles, in blocks along k where the policy says
/// so. The policy's model sums the elements, and the scales meet the sums as in block_gemm
/// (emulation/block/product.hpp). C, then the bias, are added in fp32. The result is rounded for its role.
///
/// Straight-through operators (OperatorPrecision) keep the operands of forward until the next forward: each backward
/// pass belongs to the forward pass before it.
///
/// Delayed scales come from earlier steps: end_step() records this step's magnitudes in the histories. Stochastic
/// roundings draw from (seed, step, number of the rounding in the step), so that a run continued from a checkpoint
/// draws the same bits.
class PolicyNumerics : public Numerics<float> {
 public:
  using Operands = Numerics<float>::Operands;
  using Numerics<float>::product;
  /// The policy must outlive this object. `observer` may be null.
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

  /// The operators and layers seen so far.
  std::vector<std::pair<OperatorKind, std::string>> sites() const;

  /// Histories of delayed scales, by tensor.
  Json state() const;
  /// Throws std::invalid_argument in one line that begins with the place, in `where`, of what state() does not write.
  void restore(const Json& state, const std::string& where);

 private:
  struct Layer;
  Layer& layer(const Site& site) const;
  const ProductModel* inside(const Site& site) const;
  /// Rounds an operand. Returns the magnitude that sets its scale, unless that is the operand's own.
  std::optional<float> prepare(Layer& layer, const Site& site, Product which, Role role, std::span<const float> memory,
                               std::size_t rows, std::size_t k, bool in_columns, PolicyOperand& operand);
  void round(const Site& site, Role role, const Storage& storage, std::span<float> values);
  /// The sums of a product until the next one, for an observer that measures; else empty.
  std::span<const float> sums_to_show(std::span<const float> d);
  RandomStream next_random();

  const Policy& policy_;
  std::uint64_t seed_, step_ = 0, roundings_ = 0;
  Observer* observer_;
  bool strict_inside_ = false;  ///< whether any rule rounds inside operators
  mutable std::mutex mutex_;    ///< of layers_: `inner` and sums come from several threads
  mutable std::map<std::pair<OperatorKind, std::string>, std::unique_ptr<Layer>> layers_;
  PolicyOperand a_, b_;
  std::vector<float> sums_;
};

}  // namespace halfulp::training
