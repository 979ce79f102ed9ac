// Sums whose terms are no words of any format: what accumulation does to exact products of operands that nothing has rounded.
//
// Where operands are words, gemm (emulation/products.hpp) does the work; these are its definitions for real numbers:
//
// - a DotModel's running sum starts as its first term rounded to the accumulator's format, and every further term is added
//   exactly and rounded once, as fma does. A model with another format for products converts each term into the accumulator's
//   first, one with compensation too: there sums are of words again.
// - a fused sum takes the exponents of both factors, at least the smallest of their formats, as a term's, and cuts the exact
//   product off where it cuts products of words (units/unit.hpp).
//
// Terms are doubles with a bound of their error; where that leaves a rounding open, rationals decide it. No result depends on
// which of them did.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/units/unit.hpp>
#include <halfulp/experiments/attribution/exact.hpp>

#include <optional>
#include <span>
#include <string>

namespace halfulp::attribution {

/// Term k is x[k] y[k] (target_x target_y) / (amax_x amax_y): exactly, every number a double. amax 0: all terms are 0.
struct RealTerms {
  std::span<const double> x, y;
  double target_x = 1, amax_x = 1, target_y = 1, amax_y = 1;

  std::size_t size() const { return x.size(); }
  bool vanish() const { return amax_x == 0 || amax_y == 0; }
  double factor() const { return vanish() ? 0 : target_x / amax_x * (target_y / amax_y); }
  /// Numerator of a term; `denominator` is that of all.
  Dyadic numerator(std::size_t k) const { return Dyadic(x[k]) * Dyadic(y[k]) * Dyadic(target_x) * Dyadic(target_y); }
  Dyadic denominator() const { return Dyadic(amax_x) * Dyadic(amax_y); }
};

/// Term k rounded to a format, once.
std::uint64_t rounded_term(const FloatFormat& f, const Rounding& rounding, const RealTerms& terms, std::size_t k);

/// The sum of the terms by a model, whose `input`, `product` and `output` do not count; with `products`, each is rounded to
/// the model's product format first. Precondition: no rounding is stochastic. A word of model.outer().format.
std::uint64_t real_sum(const DotModel& model, bool products, const RealTerms& terms);

/// Why a unit's sums of real terms are not defined here, in one line; empty if they are.
std::string real_refusal(const MatrixUnit& unit);

/// The exponent by which a fused sum aligns x target / amax, a factor of format f: that of its leading bit, at least f's smallest.
int real_exponent(const FloatFormat& f, double x, double target, double amax);

/// The unit's sum of the terms, from 0. ex, ey: real_exponent of every factor. Precondition: real_refusal is empty.
std::uint64_t real_sum(const MatrixUnit& unit, const RealTerms& terms, std::span<const int> ex, std::span<const int> ey);

}  // namespace halfulp::attribution
