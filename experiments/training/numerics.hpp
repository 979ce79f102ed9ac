// The one place where a layer meets precision. Layers say where they are; what is rounded there, and how, is decided behind this.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/experiments/training/model_product.hpp>
#include <halfulp/experiments/training/site.hpp>
#include <halfulp/experiments/training/sums.hpp>

#include <span>

namespace halfulp::training {

/// Products, casts and sums of a training run. Products and casts come one after the other, in the same order in every run, so
/// that an implementation may count them; `sum` and `inner` come from several threads at once.
template <class T>
class Numerics {
 public:
  using Operands = MatrixOperands<std::span<const T>>;
  virtual ~Numerics() = default;

  /// D = A B + C (+ bias, a row of n that is added to every row of D before it is rounded; or none, an empty span).
  /// Operands are cast for their roles (roles_of), sums are taken by the policy's model, D is cast for its role.
  virtual void product(const Site& site, Product which, const Operands& x, std::span<const T> bias, std::span<T> d) = 0;
  void product(const Site& site, Product which, const Operands& x, std::span<T> d) { product(site, which, x, {}, d); }

  /// `count` such products of one size, whose operands and results lie one after the other without gaps: heads of attention. By
  /// default one call of `product` each.
  virtual void products(const Site& site, Product which, std::size_t count, const Operands& x, std::span<T> d) {
    const std::size_t a = x.m * x.k, b = x.k * x.n, size = x.m * x.n;
    for (std::size_t i = 0; i < count; ++i) {
      Operands one = x;
      one.a = x.a.subspan(i * a, a);
      one.b = x.b.subspan(i * b, b);
      product(site, which, one, {}, d.subspan(i * size, size));
    }
  }

  /// Rounds a tensor in place to the format of its role.
  virtual void cast(const Site& site, Role role, std::span<T> values) = 0;

  /// Sum of values in a fixed order: by default in T (fixed_order_sum), in another format where a policy is strict about inner
  /// steps.
  virtual T sum(const Site&, std::span<const T> values) const { return fixed_order_sum(values); }
  /// sums[j] = sum over i of the rows x columns matrix, rows ascending.
  virtual void column_sums(const Site&, std::size_t columns, std::span<const T> values, std::span<T> sums) const {
    fixed_order_column_sums(columns, values, sums);
  }
  /// Rounds intermediate results inside an operator (a mean, exponentials): nothing unless a policy is strict about them.
  virtual void inner(const Site&, std::span<T>) const {}
};

/// Double throughout, for finite differences.
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

/// Training in FP32: products are summed one after the other, k ascending, every product and every sum rounded to fp32; then C and
/// the bias are added. Nothing else is rounded.
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
