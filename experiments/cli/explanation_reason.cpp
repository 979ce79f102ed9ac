// Why each rounding mode gives what it gives: by the place of the asked value between its neighbours, not by the rounding kernel.
#include <halfulp/experiments/cli/explanation.hpp>

namespace halfulp::cli {
namespace {

/// Of an infinity or a NaN.
std::string non_finite_reason(const Explanation& e, const Rounded& result) {
  if (e.is_nan) return e.format.is_nan(result.code) ? "NaN" : "no NaN";
  if (e.format.is_infinite(result.code)) return "infinite";
  if (result.flags & flag::invalid) return "no negatives";
  return e.rounding.overflow == Overflow::saturate ? "saturates" : "no infinity";
}

/// A directed mode; the direction alone decides.
std::string direction(const Explanation& e, RoundingMode mode) {
  if (mode == RoundingMode::toward_positive) return "+inf is up";
  if (mode == RoundingMode::toward_negative) return "-inf is down";
  return *e.value > 0 ? "0 is down" : "0 is up";
}

bool is_directed(RoundingMode mode) {
  return mode == RoundingMode::toward_zero || mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;
}

/// Whether a mode takes a value beyond the largest finite one toward it.
bool goes_inward(const Explanation& e, RoundingMode mode) {
  return mode == RoundingMode::toward_zero || mode == (*e.value > 0 ? RoundingMode::toward_negative : RoundingMode::toward_positive);
}

std::string nearest(const Explanation& e, const Outcome& outcome) {
  if (!e.below || !e.above) return "beyond max";
  // Beyond the largest value there is a neighbour to be near to, as if exponents went on, which the format does not have.
  if (*e.value - e.below->value != e.above->value - *e.value) return e.format.is_finite(outcome.result.code) ? "nearer" : "beyond max";
  const RoundingMode mode = outcome.mode;
  return mode == RoundingMode::nearest_even ? "tie: even" : mode == RoundingMode::nearest_away ? "tie: away" : "tie: to 0";
}

}  // namespace

std::string Explanation::reason(const Outcome& outcome) const {
  const auto& [code, flags] = outcome.result;
  if (!value) return non_finite_reason(*this, outcome.result);
  if (flags & flag::invalid) return "no negatives";
  if (outcome.error && outcome.error->is_zero()) return "exact";
  if (format.has_zero && format.is_zero(code) && (rounding.flush_outputs || (by_code && rounding.flush_inputs))) return "flushed";
  if (!below && !format.is_signed) return "smallest";  // what lies below the smallest value of a format without zero
  if (outcome.mode == RoundingMode::stochastic) return "p = " + rounded(outcome.probability, 3);
  if ((flags & flag::overflow) && format.is_finite(code) && !goes_inward(*this, outcome.mode)) {
    if (rounding.overflow == Overflow::saturate) return "saturates";
    return outcome.mode == RoundingMode::to_odd && (format.has_infinity() || format.has_nan()) ? "stays finite" : "beyond max";
  }
  if (is_directed(outcome.mode)) return direction(*this, outcome.mode);
  return outcome.mode == RoundingMode::to_odd ? "odd last bit" : nearest(*this, outcome);
}

}  // namespace halfulp::cli
