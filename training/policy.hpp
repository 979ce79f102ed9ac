// Precision policies: the format, rounding, scaling and accumulation of each operator of a network, and the settings of
// optimizer and loss scaler.
#pragma once

#include <halfulp/support/json.hpp>
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

/// The precision of one operator.
struct OperatorPrecision {
  /// A product rounds its operands to these: weight, activation, gradient_of_activation.
  std::array<Storage, 3> operands = {};
  /// Results are rounded to these: activation, gradient_of_activation, gradient_of_weight, and communication (what
  /// ranks exchange).
  std::array<Storage, 4> results = {};
  /// How each of the three products is summed: a product model without operands ("acc=fp32"), or a matrix unit.
  std::array<std::string, 3> accumulate{"fp32", "fp32", "fp32"};
  /// Format of intermediate results inside an operator (means, exponentials, sums of rows); absent: fp32.
  std::optional<FloatFormat> inside = {};
  /// Quantization-aware training, for linear and conv2d. The forward product rounds weights and activations, and the
  /// two products of the backward pass reuse the rounded values. The gradient passes the rounding unchanged (Bengio et
  /// al. 2013, arXiv:1308.3432), except for values beyond a fixed or delayed amax, where it is zero (Jacob et al. 2018,
  /// section 3).
  bool straight_through = false;

  const Storage& operand(Role role) const;
  /// What this product rounds an operand to.
  const Storage& operand(Product which, Role role) const;
  const Storage& result(Role role) const;
};

/// {"operands": {ROLE: S}, "results": {ROLE: S}, "accumulate": {PRODUCT: MODEL}, "inside": FORMAT or null,
/// "straight_through": BOOL}, with every member.
Json to_json(const OperatorPrecision& precision);

struct Policy {
  std::string name, title, source;
  UpdatePrecision update = {};
  std::optional<LossScalerSettings> loss_scaling = {};  ///< absent: the loss is not scaled, and no step is skipped
  Json json;  ///< as it was read, with the base filled in: enough to read it again

  /// Everything that changes a training, for checkpoints; also members that were changed after reading. Titles do not
  /// count.
  Json identity() const;

  /// The precision of an operator. Later rules win over earlier ones.
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
    /// Whether a pattern of `layers` means this layer.
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
/// S is a storage (storage.hpp). Operators are named as in numerics.hpp ("all": all of them). A policy takes everything
/// from its `base`, a named policy, and may change it; its rules come after those of the base. Throws
/// std::invalid_argument in one line that begins with `where`.
Policy parse_policy(const Json& json, const std::string& where);

/// The named policies, in the order of policies.json.
const std::vector<Policy>& policies();

/// The policy of that name, or that of a file whose path ends in .json. Throws std::invalid_argument in one line.
Policy find_policy(const std::string& name_or_path);

}  // namespace halfulp::training
