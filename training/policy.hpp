// Precision policies: which format, rounding, scaling and accumulation each operator of a network has, and what
// optimizer and loss scaler do.
#pragma once

#include <halfulp/training/loss_scaler.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/storage.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::training {

/// What holds at one operator.
struct OperatorPrecision {
  /// What a product's operands are rounded to on their way in: of weight, activation, gradient_of_activation.
  std::array<Storage, 3> operands = {};
  /// What results are rounded to: activation, gradient_of_activation, gradient_of_weight, and communication (of what
  /// ranks exchange).
  std::array<Storage, 4> results = {};
  /// How each of the three products is summed: a product model without operands ("acc=fp32"), or a matrix unit.
  /// `accumulation`.
  std::array<std::string, 3> accumulate{"fp32", "fp32", "fp32"};
  /// Of intermediate results inside an operator (means, exponentials, sums of rows); absent: fp32.
  std::optional<FloatFormat> inside = {};
  /// Quantization-aware training: weights and activations are rounded once, by the forward product, and the two
  /// products of the backward pass take these values as they are; the gradient passes the rounding unchanged (Bengio et
  /// al. 2013, arXiv:1308.3432), but for values beyond a fixed or delayed amax, where it is zero (Jacob et al. 2018,
  /// section 3). Of linear and conv2d.
  bool straight_through = false;

  const Storage& operand(Role role) const;
  /// What an operand of this product is rounded to on its way in.
  const Storage& operand(Product which, Role role) const;
  const Storage& result(Role role) const;
};

struct Policy {
  std::string name, title, source;
  UpdatePrecision update = {};
  std::optional<LossScalerSettings> loss_scaling = {};  ///< absent: the loss is not scaled, and no step is skipped
  Json json;                                            ///< as it was read, bases filled in: enough to read it again

  /// All that makes a training differ, changed members too, for checkpoints. Titles do not matter.
  Json identity() const;

  /// What the rules say of an operator, later ones before earlier ones.
  OperatorPrecision at(OperatorKind kind, std::string_view layer) const;

  struct Rule {
    std::vector<OperatorKind> operators;  ///< empty: all
    std::vector<std::string> layers;      ///< "fc1" (and what is in it, "fc1.weight"), "block1.*", "*.qkv"; empty: all
    // What it changes, as in OperatorPrecision; what is absent stays as earlier rules have it.
    std::array<std::optional<Storage>, 3> operands = {};
    std::array<std::optional<Storage>, 4> results = {};
    std::array<std::optional<std::string>, 3> accumulate = {};
    std::optional<FloatFormat> inside = {};  ///< fp32: intermediate results are not rounded any more
    std::optional<bool> straight_through = {};
    Json json = {};  ///< as it was written, for people and for identity()

    void apply(OperatorPrecision& precision) const;
    bool speaks_of(OperatorKind kind) const;
    /// Whether one of `layers` means this layer.
    static bool names(std::string_view pattern, std::string_view layer);
  };
  std::vector<Rule> rules;
};

/// Reads a policy:
///
///   {"name": "mine", "title": "...", "source": "...", "base": "amp-fp16",
///    "rules": [{"operators": ["linear", "conv2d"], "layers": ["fc1"], "operands": S or {ROLE: S}, "results": S or
///    {ROLE: S},
///               "accumulate": MODEL or {"forward": MODEL, "to-input": MODEL, "to-weight": MODEL}, "inside": FORMAT,
///               "straight_through": true}],
///    "weights": {"storage": S, "master": true, "kahan": true},
///    "optimizer": {"state": S, "first": S, "second": S, "arithmetic": S, "rounded_constants": true},
///    "loss_scaling": null | {"kind": "static" | "dynamic", "scale": 65536, "skip": true, "growth": 2, "backoff": 0.5,
///    "interval": 2000}}
///
/// S is a storage (storage.hpp). Operators are named as in site.hpp ("all": all of them). What a policy has of a `base`
/// (a named policy) it may change; its rules come behind those of the base. Throws std::invalid_argument in one line
/// that begins with `where`.
Policy parse_policy(const Json& json, const std::string& where);

/// The named policies (policies.json), in its order.
const std::vector<Policy>& policies();

/// A policy by its name, or from the file of a path that ends in .json. Throws std::invalid_argument in one line.
Policy find_policy(const std::string& name_or_path);

}  // namespace halfulp::training
