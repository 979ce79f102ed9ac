// Where the error of a product comes from: what its operands lost, what its sums lost, what rounding the result lost.
#pragma once

#include <halfulp/training/policy_numerics.hpp>
#include <halfulp/training/rows.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace halfulp::training {

/// Errors of one operator's product, over a sample of its elements. With y the product of the operands as they came and
/// z that of the rounded ones, both in double, s the model's sum and d what was stored, an element's error is
/// d - y = (z - y) + (s - z) + (d - s). Squares of y and of these are added up here.
struct ProductErrors {
  OperatorKind kind = OperatorKind::linear;
  std::string name;
  Product which = Product::forward;
  std::size_t m = 0, n = 0, k = 0, count = 0;  ///< shape of the last one; products of one size together
  std::uint64_t elements = 0;                  ///< that were measured
  std::uint64_t non_finite = 0;                ///< left out, because a number of theirs is Inf or NaN
  double signal = 0, error = 0;                ///< of y, of d - y
  double quantization = 0, accumulation = 0, rounding = 0;
  /// Largest magnitudes of the operands as they came, and of the result; NaN where one was met.
  float largest_a = 0, largest_b = 0, largest_d = 0;
  /// Elements whose sum is farther from z than any order of fp32 sums can be (Higham 2002, section 3.1); only where the
  /// model sums in fp32 to nearest.
  std::uint64_t bounded = 0, beyond_bound = 0;

  /// Signal over error in dB; Inf without any error, NaN without a signal.
  double sqnr_db() const;
  /// A part of the three, relative to their sum; NaN if all are 0.
  double share(double part) const;
};

/// Measures products by at most 16 rows and 64 columns, spread over all products that are computed together.
class ProductMeter {
 public:
  void see(const ProductSighting& product);
  /// What was measured since the last call, in the order of the computation.
  std::vector<ProductErrors> take();

 private:
  Rows<std::tuple<OperatorKind, std::string, Product>, ProductErrors> rows_;
};

}  // namespace halfulp::training
