// The places of a network where precision can be chosen: which operator, which tensor of it, which of its products.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/product.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace halfulp::training {

enum class OperatorKind : std::uint8_t {
  linear,
  conv2d,
  embedding,
  layer_norm,
  rms_norm,
  batch_norm,
  relu,
  gelu,
  softmax,
  cross_entropy,
  bce,
  bce_with_logits,
  attention_scores,
  attention_values,
  position,
  lstm_cell,
  dropout,
  max_pool,
  average_pool,
  residual,
  optimizer
};

/// The names that policies use for operators, in the order of the enumerators.
inline constexpr std::array<std::string_view, 21> operator_names{
    "linear",   "conv2d",    "embedding",     "layer-norm", "rms-norm",        "batch-norm",       "relu",
    "gelu",     "softmax",   "cross-entropy", "bce",        "bce-with-logits", "attention-scores", "attention-values",
    "position", "lstm-cell", "dropout",       "max-pool",   "average-pool",    "residual",         "optimizer"};
constexpr std::string_view name_of(OperatorKind kind) { return operator_names[static_cast<std::size_t>(kind)]; }

enum class Role : std::uint8_t {
  weight,
  activation,
  gradient_of_activation,
  gradient_of_weight,
  optimizer_state,
  accumulation,
  communication
};
inline constexpr std::array<std::string_view, 7> role_names{
    "weight",          "activation",   "gradient-of-activation", "gradient-of-weight",
    "optimizer-state", "accumulation", "communication"};
constexpr std::string_view name_of(Role role) { return role_names[static_cast<std::size_t>(role)]; }

/// An operator of a network: "fc1" is a linear one. A gradient or state of a single parameter carries the parameter's
/// name, "fc1.bias". The name is not owned.
struct Site {
  OperatorKind kind;
  std::string_view name;
};

/// The three products of y = x W^T: y itself, dx = dy W, dW = dy^T x.
enum class Product : std::uint8_t { forward, to_input, to_weight };
inline constexpr std::array<std::string_view, 3> product_names{"forward", "to-input", "to-weight"};
constexpr std::string_view name_of(Product which) { return product_names[static_cast<std::size_t>(which)]; }

/// The roles of the operands and of the result of a product.
struct ProductRoles {
  Role a, b, d;
};

/// Attention multiplies two activations: its scores are y = Q K^T (to_input gives dQ, to_weight dK), its values y = P V
/// (to_input gives dP = dy V^T, to_weight dV = P^T dy).
constexpr ProductRoles roles_of(OperatorKind kind, Product which) {
  constexpr Role x = Role::activation, w = Role::weight, dx = Role::gradient_of_activation,
                 dw = Role::gradient_of_weight;
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

// Products of matrices by a product model, as layers ask for them: with a bias, several of one size at once.

/// D = A B + C as the model computes it (gemm, emulation/product/product.hpp). Then the bias, a row of n or an empty
/// span, is added to every row of D in fp32. A NaN is float's canonical one. Several products of one size may be
/// computed at once: their A, B, C and D lie one after the other without gaps (precondition), and product i draws its
/// random bits from the streams from first_stream + i m n on. D may be the memory of C with the same leading dimension.
/// Results do not depend on the number of threads. Throws what gemm throws.
void multiply(const ProductModel& model, const FloatOperands& x, std::span<const float> bias, std::span<float> d,
              std::size_t count = 1, std::uint64_t first_stream = 0);

/// The same in double, for finite differences, in the order of the model "fp32": k ascending, every product and every
/// sum rounded; then C, then the bias.
void multiply(const MatrixOperands<std::span<const double>>& x, std::span<const double> bias, std::span<double> d,
              std::size_t count = 1);

// The one place where a layer meets precision. A layer says where it is; a Numerics decides what is rounded there, and
// how.

/// Products, casts and sums of a training run. Products and casts are called one after the other, in the same order in
/// every run, so that an implementation may count them. `sum` and `inner` are called from several threads at once.
template <class T>
class Numerics {
 public:
  using Operands = MatrixOperands<std::span<const T>>;
  virtual ~Numerics() = default;

  /// D = A B + C + bias. The bias is a row of n, added to every row of D before D is rounded, or an empty span.
  /// Operands are cast for their roles (roles_of), the policy's model sums the products, and D is cast for its role.
  virtual void product(const Site& site, Product which, const Operands& x, std::span<const T> bias, std::span<T> d) = 0;
  void product(const Site& site, Product which, const Operands& x, std::span<T> d) { product(site, which, x, {}, d); }

  /// `count` such products of one size, whose operands and results lie one after the other without gaps: heads of
  /// attention. By default one call of `product` each.
  virtual void products(const Site& site, Product which, std::size_t count, const Operands& x, std::span<T> d) {
    const std::size_t size = x.m * x.n;
    for (std::size_t i = 0; i < count; ++i) product(site, which, x.nth(i), {}, d.subspan(i * size, size));
  }

  /// Rounds a tensor in place to the format of its role.
  virtual void cast(const Site& site, Role role, std::span<T> values) = 0;

  /// The sum of values in a fixed order: in T (fixed_order_sum), or in another format where a policy rounds inner
  /// steps.
  virtual T sum(const Site&, std::span<const T> values) const { return fixed_order_sum(values); }
  /// sums[j] = sum over i of the rows x columns matrix, rows ascending.
  virtual void column_sums(const Site&, std::size_t columns, std::span<const T> values, std::span<T> sums) const {
    fixed_order_column_sums(columns, values, sums);
  }
  /// Rounds intermediate results inside an operator (a mean, exponentials) where a policy rounds inner steps.
  virtual void inner(const Site&, std::span<T>) const {}
};

/// Computes in double throughout, for finite differences.
class ExactNumerics : public Numerics<double> {
 public:
  using Numerics<double>::product;
  void product(const Site&, Product, const Operands& x, std::span<const double> bias, std::span<double> d) override {
    multiply(x, bias, d);
  }
  void products(const Site&, Product, std::size_t count, const Operands& x, std::span<double> d) override {
    multiply(x, {}, d, count);
  }
  void cast(const Site&, Role, std::span<double>) override {}
};

/// Trains in FP32: products are summed with k ascending, every product and every sum rounded to fp32; then C and the
/// bias are added. Nothing else is rounded.
class Fp32Numerics : public Numerics<float> {
 public:
  using Numerics<float>::product;
  void product(const Site&, Product, const Operands& x, std::span<const float> bias, std::span<float> d) override {
    multiply(fp32_, x, bias, d);
  }
  void products(const Site&, Product, std::size_t count, const Operands& x, std::span<float> d) override {
    multiply(fp32_, x, {}, d, count);
  }
  void cast(const Site&, Role, std::span<float>) override {}

 private:
  ProductModel fp32_ = parse_product_model("fp32");
};

}  // namespace halfulp::training
