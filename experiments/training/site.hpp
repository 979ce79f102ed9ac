// The places of a network where precision can be chosen: which operator, which tensor of it, which of its products.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace halfulp::training {

enum class OperatorKind : std::uint8_t {
  linear, conv2d, embedding, layer_norm, rms_norm, batch_norm, relu, gelu, softmax, cross_entropy, bce, bce_with_logits,
  attention_scores, attention_values, position, lstm_cell, dropout, max_pool, average_pool, residual, optimizer
};

/// Names by which policies speak of operators, in the order of the enumerators.
inline constexpr std::array<std::string_view, 21> operator_names{
    "linear", "conv2d", "embedding", "layer-norm", "rms-norm", "batch-norm", "relu", "gelu", "softmax", "cross-entropy", "bce",
    "bce-with-logits", "attention-scores", "attention-values", "position", "lstm-cell", "dropout", "max-pool", "average-pool",
    "residual", "optimizer"};
constexpr std::string_view name_of(OperatorKind kind) { return operator_names[static_cast<std::size_t>(kind)]; }

enum class Role : std::uint8_t {
  weight, activation, gradient_of_activation, gradient_of_weight, optimizer_state, accumulation, communication
};
inline constexpr std::array<std::string_view, 7> role_names{
    "weight", "activation", "gradient-of-activation", "gradient-of-weight", "optimizer-state", "accumulation", "communication"};
constexpr std::string_view name_of(Role role) { return role_names[static_cast<std::size_t>(role)]; }

/// An operator of a network: "fc1" is a linear one. A gradient or state of one parameter alone carries the parameter's name,
/// "fc1.bias". The name is not owned.
struct Site {
  OperatorKind kind;
  std::string_view name;
};

/// The three products of y = x W^T: y itself, dx = dy W, dW = dy^T x.
enum class Product : std::uint8_t { forward, to_input, to_weight };
inline constexpr std::array<std::string_view, 3> product_names{"forward", "to-input", "to-weight"};
constexpr std::string_view name_of(Product which) { return product_names[static_cast<std::size_t>(which)]; }

/// What the operands and the result of a product are.
struct ProductRoles {
  Role a, b, d;
};

/// Attention multiplies two activations: its scores are y = Q K^T (to_input gives dQ, to_weight dK), its values y = P V
/// (to_input gives dP = dy V^T, to_weight dV = P^T dy).
constexpr ProductRoles roles_of(OperatorKind kind, Product which) {
  constexpr Role x = Role::activation, w = Role::weight, dx = Role::gradient_of_activation, dw = Role::gradient_of_weight;
  if (kind == OperatorKind::attention_scores || kind == OperatorKind::attention_values) {
    if (which == Product::forward) return {x, x, x};
    if (kind == OperatorKind::attention_values && which == Product::to_weight) return {x, dx, dx};
    return {dx, x, dx};
  }
  switch (which) {
    case Product::forward: return {x, w, x};
    case Product::to_input: return {dx, w, dx};
    case Product::to_weight: break;
  }
  return {dx, x, dw};
}

}  // namespace halfulp::training
