#include <halfulp/experiments/sum_bounds.hpp>

#include <cmath>
#include <limits>

namespace halfulp {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double gamma(double k, double u) { return k * u < 1 ? k * u / (1 - k * u) : none; }

/// ceil(log2 n) for n >= 1.
double height(double n) {
  double levels = 0;
  for (double leaves = 1; leaves < n; leaves *= 2) ++levels;
  return levels;
}

}  // namespace

double unit_roundoff(const Stage& stage) {
  return FloatFormat::power_of_two(-stage.format.precision() + (is_nearest(stage.rounding.mode) ? 0 : 1));
}

ErrorBounds error_bounds(const DotModel& model, double n, bool products) {
  const double block = model.order == Order::sequential ? n : std::min(n, static_cast<double>(model.block));
  const double blocks = std::ceil(n / block);
  const double u = unit_roundoff(model.accumulator), outer_u = unit_roundoff(model.outer());
  const double outer = model.order == Order::pairwise ? height(blocks) : blocks - 1;
  const double inner = block - 1 + (products ? 1 : 0);
  const bool one_format = !model.promoted || model.promoted->format == model.accumulator.format;

  ErrorBounds bounds;
  if (model.compensation != Compensation::none) {
    // Each term meets a number of roundings that does not grow with n: two (Kahan), one (Neumaier).
    bounds.roundings = (model.compensation == Compensation::kahan ? 2 : 1) + (products ? 1 : 0);
    bounds.linear = bounds.roundings * u;
    bounds.root = std::sqrt(bounds.roundings) * u;
    bounds.proven = none;
    if (blocks > 1 || !is_nearest(model.accumulator.rounding.mode)) return bounds;
    if (model.compensation == Compensation::kahan) {
      // With y = fl(x_i - c), s' = fl(s + y), c' = fl(fl(s' - s) - y) and |each relative error| <= u, z = s - c obeys
      // z' = z + x_i + [u|x_i - c|] + [u(1 + u)|s' - s|] + [u^2|s + y|], [] meaning "at most, either sign". Let T be
      // the sum of |x_i|, R the largest |s + y|. For u <= 1/16:  sum of |c| <= 1.22 u (n R + T), each |c| <= 1.22 u (R
      // + T), R <= 1.6 T as long as |z - exact| <= T/2;  so |z - exact| <= 2.13 u T + 2.6 u^2 T + 4.7 n u^2 R <= (2.3 u
      // + 7.6 n u^2) T, and the result s = z + c is off by 1.22 u 2.6 T more: below (6 u + 8 n u^2) T, which keeps |z -
      // exact| <= T/2 for the next step.
      const double kahan = 6 * u + 8 * n * u * u;
      if (kahan <= 0.5 && u <= 0.0625) bounds.proven = kahan;
    } else {
      const double g = gamma(n - 1, u);
      bounds.proven = u + g * g;
    }
    if (products) bounds.proven = (1 + u) * bounds.proven + u;
    return bounds;
  }
  bounds.roundings = inner + outer;
  bounds.linear = inner * u + outer * outer_u;
  bounds.root = std::sqrt(inner * u * u + outer * outer_u * outer_u);
  bounds.proven = (1 + gamma(inner, u)) * (1 + gamma(outer, outer_u)) - 1;
  if (model.outer().format.precision() <
      model.accumulator.format.precision()) {  // block results are rounded on the way out
    bounds.linear += outer_u;
    bounds.proven = (1 + bounds.proven) * (1 + outer_u) - 1;
  }
  if (one_format && is_nearest(model.accumulator.rounding.mode) && is_nearest(model.outer().rounding.mode) &&
      (!products || model.product)) {
    const double any_order = (n - 1 + (products ? 1 : 0)) * u;
    if (!(bounds.proven <= any_order)) bounds.proven = any_order;
  }
  return bounds;
}

double underflow_allowance(const DotModel& model, double n) {
  return n * model.accumulator.format.value(model.accumulator.format.min_positive());
}

}  // namespace halfulp
