#include <halfulp/emulation/array/half.hpp>
#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/product/half.hpp>
#include <halfulp/emulation/product/plan.hpp>
#include <halfulp/emulation/round_pack.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace halfulp::products {
namespace {

float maximum(const FloatFormat& f) { return static_cast<float>(f.value(f.max_finite())); }

/// Whether products of values of a and b, finite ones, are values of f.
bool holds_products(const FloatFormat& f, const FloatFormat& a, const FloatFormat& b) {
  return a.precision() + b.precision() <= f.precision() && lowest(a) + lowest(b) >= lowest(f) &&
         a.value(a.max_finite()) * b.value(b.max_finite()) <= f.value(f.max_finite());
}

std::optional<Direction> direction_of(RoundingMode mode) {
  switch (mode) {
    case RoundingMode::nearest_even: return Direction::nearest;
    case RoundingMode::toward_zero: return Direction::zero;
    case RoundingMode::toward_positive: return Direction::up;
    case RoundingMode::toward_negative: return Direction::down;
    case RoundingMode::nearest_away: return Direction::ties_away;
    case RoundingMode::nearest_to_zero: return Direction::ties_to_zero;
    case RoundingMode::to_odd: return Direction::odd;
    case RoundingMode::stochastic: return Direction::stochastic;
  }
  return {};
}

const FloatFormat& format_of(Carrier carrier) { return carrier == Carrier::single ? fp32 : fp16; }

/// Values and their halves are normal numbers of the carrier, and so are the aligner of values up to 2^(emax + 2) and
/// half of it; of halves, which know no larger aligner than that of 2^emax, only that.
bool takes_aligner(const FloatFormat& f, Carrier carrier) {
  const FloatFormat& lanes = format_of(carrier);
  return f.is_signed && f.has_zero && f.fraction_bits >= 1 && f.precision() <= lanes.precision() - 2 &&
         f.max_finite() >= f.min_normal() && lowest(f) > lanes.emin() &&
         f.emax() + (carrier == Carrier::single ? 3 : 0) + lanes.precision() - f.precision() <= lanes.emax();
}

/// Whether the carrier's last bits cut off give the format, subnormals included, as short_float says of floats.
bool is_shortened(const FloatFormat& f, Carrier carrier) {
  if (carrier == Carrier::single) return array::short_float(f);
  FloatFormat whole = f;
  whole.fraction_bits = fp16.fraction_bits;
  return whole == fp16 && f.fraction_bits >= 1;
}

std::optional<PlannedStage> planned(const Stage& s, Carrier carrier = Carrier::single) {
  const FloatFormat& f = s.format;
  const Rounding& r = s.rounding;
  const auto direction = direction_of(r.mode);
  const bool flushes = r.flush_inputs || r.flush_outputs;
  if (!direction) return {};
  if (flushes && (!r.flush_outputs || !is_of_environment(*direction) || carrier == Carrier::half)) return {};
  if (!is_of_environment(*direction) && (carrier == Carrier::half || f == format_of(carrier))) return {};
  if (*direction == Direction::stochastic &&
      (r.variant != StochasticVariant::truncate || r.random_bits != max_random_bits))
    return {};
  PlannedStage stage{f, {}, *direction};
  if (flushes) {
    stage.rounder.tiny_below = std::bit_cast<float>(array::least_not_tiny<float>(f, r, false));
    stage.rounder.tiny_above = -std::bit_cast<float>(array::least_not_tiny<float>(f, r, true));
  }
  if (f == format_of(carrier) && r.overflow == Overflow::ieee) return stage;
  Rounder& to = stage.rounder;
  to.tail = format_of(carrier).precision() - f.precision();
  if (is_shortened(f, carrier) && r.overflow == Overflow::ieee) {
    to.way = Way::linear;
    return stage;
  }
  if (!takes_aligner(f, carrier)) return {};
  to.way = Way::aligned;
  to.emin = least_normal(f);
  to.scale = static_cast<float>((*direction >= Direction::zero ? 1.0 : 1.5) * FloatFormat::power_of_two(to.tail));
  to.half = static_cast<float>(FloatFormat::power_of_two(-f.precision()));
  to.emax = static_cast<float>(FloatFormat::power_of_two(f.emax()));
  to.max = maximum(f);
  to.beyond = f.has_infinity() ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  const auto stays = [&](bool negative) {
    return f.magnitude(overflowed(f, r, negative).code) == f.max_finite() &&
           f.is_finite(overflowed(f, r, negative).code);
  };
  to.fix = stays(false) ? (stays(true) ? Fix::clamp : Fix::over_down) : stays(true) ? Fix::over_up : Fix::over;
  return stage;
}

/// Whether a value that is not finite is the same in `to`.
bool keeps_specials(const FloatFormat& to, const FloatFormat& from) {
  return (to.has_infinity() || !from.has_infinity()) && (to.has_nan() || !from.has_nan());
}

/// Whether round to nearest may round products of pa + pb bits to the carrier first: they are exact, at least where
/// they do not become 0.
bool products_serve(const FloatFormat& f, const FloatFormat& a, const FloatFormat& b, const FloatFormat& carrier) {
  const int bits = a.precision() + b.precision();
  return bits <= carrier.precision() &&
         (lowest(a) + lowest(b) >= lowest(carrier) || lowest(carrier) + bits - 1 <= lowest(f) - 2);
}
/// The same of sums of two values: they are exact, or rounding twice is harmless (Figueroa 1995): to nearest.
bool sums_serve(const FloatFormat& f, const FloatFormat& carrier, Direction direction = Direction::nearest) {
  return f.emax() + 2 - lowest(f) <= carrier.precision() ||
         (direction != Direction::odd && 2 * f.precision() + 2 <= carrier.precision());
}

/// Whether floats hold all sums of two values.
bool are_sums_exact(const FloatFormat& f) { return f.emax() + 2 - lowest(f) <= fp32.precision(); }

/// The way `plain` of a stage that rounds nothing; what it flushes it still does.
Rounder unrounded(const Rounder& stage) {
  Rounder plain;
  plain.tiny_above = stage.tiny_above, plain.tiny_below = stage.tiny_below;
  return plain;
}

/// The words that DotEngine draws, where all stages but the outer one are stochastic.
Draws draws_of(const DotModel& m) {
  const FloatFormat& multiplier = m.product ? m.product->format : m.accumulator.format;
  Draws draws;
  draws.product = (m.input != multiplier) + (m.second() != multiplier);
  draws.first_term = draws.product + 1 + (multiplier != m.accumulator.format);
  draws.sum = m.product ? draws.first_term : draws.product;  // fma, or addition
  draws.term = draws.sum + 1;
  return draws;
}

/// Whether rounding in this direction minds what a float loses of an exact result.
bool minds_rounding_twice(Direction direction) {
  return direction == Direction::nearest || direction == Direction::ties_to_zero || direction == Direction::odd;
}

/// What becomes zero of operands of a format on their way into an operation of a stage.
Flushed flushed(const FloatFormat& from, const Stage& to) {
  Flushed flushed;
  if (to.rounding.flush_inputs) {
    flushed.below = std::max(least_normal(from), least_normal(to.format));
    if (!from.has_negative_zero()) flushed.unsigned_below = least_normal(from);
  }
  if (to.rounding.flush_outputs && from != to.format) flushed.below = std::max(flushed.below, least_normal(to.format));
  return flushed;
}

/// Of the stages of running sums.
int largest_emin(const DotModel& m) {
  return std::max(m.accumulator.format.emin(), (m.product ? *m.product : m.accumulator).format.emin());
}
void flush_nothing(Rounder& stage) { stage.tiny_above = stage.tiny_below = 0; }

/// Whether vectors flush what all stages of a model do: results and, if at all, operands. Then no number that meets
/// another is subnormal, in its stage or, with larger exponents, in the next one.
bool flushes_alike(const DotModel& m) {
  const Rounding& r = m.accumulator.rounding;
  const auto alike = [&](const Stage& s) {
    return s.rounding.flush_inputs == r.flush_inputs && s.rounding.flush_outputs == r.flush_outputs;
  };
  if ((m.product && !alike(*m.product)) || !alike(m.outer())) return false;
  return !r.flush_outputs || (m.outer().format.emin() <= m.accumulator.format.emin() &&
                              (!m.product || m.accumulator.format.emin() <= m.product->format.emin()));
}

/// What vectors need of a plan that flushes: nothing rounded to odd, and results near the smallest normal number that
/// are exact as floats, or judged by a float with as many bits as that number has below it (flushing.cpp).
bool flushes_by_vectors(const DotModel& m, const Plan& plan) {
  if (plan.odd_product || plan.odd_sum || plan.odd_if_tiny) return false;
  const bool exact_products = m.input.precision() + m.second().precision() <= fp32.precision();
  if (plan.product.rounder.way == Way::fused) {
    const FloatFormat& f = plan.accumulator.format;
    if (holds_products(f, m.input, m.second())) return true;
    return plan.accumulator.rounder.way == Way::plain && m.accumulator.rounding.tininess == Tininess::after;
  }
  return exact_products || (plan.product.rounder.way == Way::plain && m.product->rounding.tininess == Tininess::after);
}

/// The rule of running sums in halves, with the fixes of values beyond the largest; none where they do not serve.
std::optional<StepRule> rule_of_halves(const DotModel& m) {
  if (!array::has_half_lanes() || !holds(fp16, m.input) || !holds(fp16, m.second())) return {};
  const auto sum = planned(m.accumulator, Carrier::half);
  if (!sum) return {};
  StepRule rule{{}, sum->rounder, sum->direction, false, false, m.compensation, Carrier::half};
  const bool nearest = sum->direction == Direction::nearest;
  if (nearest && rule.sum.way != Way::plain && !sums_serve(sum->format, fp16)) return {};
  if (!m.product) {
    rule.product.way = Way::fused;
  } else if (!holds_products(m.product->format, m.input, m.second()) || !holds(fp16, m.product->format)) {
    const auto product = planned(*m.product, Carrier::half);
    if (!product) return {};
    rule.product = product->rounder;
    if (nearest && rule.product.way != Way::plain && !products_serve(product->format, m.input, m.second(), fp16))
      return {};
  }
  if (!runs_in_halves(rule)) return {};
  return rule;
}

}  // namespace

std::optional<Plan> make_plan(const DotModel& m) {
  const bool compensated = m.compensation != Compensation::none;
  if (compensated && (m.order == Order::blocked || !direction_of(m.accumulator.rounding.mode) ||
                      !is_of_environment(*direction_of(m.accumulator.rounding.mode))))
    return {};  // sums of blocks are compensated too
  for (const FloatFormat* f : {&m.input, &m.second(), &m.result()})
    if (!holds(fp32, *f) || !f->has_zero || f->storage_bits() > 32) return {};
  const bool normal_outputs = m.accumulator.rounding.flush_outputs;
  if (m.output &&
      ((m.output->rounding.flush_inputs && !normal_outputs) || m.output->rounding.mode == RoundingMode::stochastic))
    return {};
  // Whether a running sum can be tiny. Only an addend can make the sum so where products are large enough.
  const bool flushes = normal_outputs && (lowest(m.input) + lowest(m.second()) < largest_emin(m) ||
                                          !max_is_normal_multiple((m.product ? *m.product : m.accumulator).format) ||
                                          !max_is_normal_multiple(m.accumulator.format));
  if (!flushes_alike(m) || (flushes && compensated)) return {};
  const FloatFormat& multiplier = m.product ? m.product->format : m.accumulator.format;
  if (!keeps_specials(multiplier, m.input) || !keeps_specials(multiplier, m.second())) return {};

  auto accumulator = planned(m.accumulator);
  const auto outer = planned(m.outer());
  if (!accumulator || !outer) return {};
  if (!flushes) flush_nothing(accumulator->rounder);
  const bool same_outer = !m.promoted || *m.promoted == m.accumulator;
  if (!same_outer && (outer->rounder.way != Way::plain || !keeps_specials(outer->format, accumulator->format) ||
                      !holds(fp32, accumulator->format)))
    return {};

  const int carrier_bits = fp32.precision();
  Plan plan{
      *accumulator, *accumulator, *outer, false, false, false, false, true, false, m.accumulator.rounding.nan, {}};
  const bool exact = m.input.precision() + m.second().precision() <= carrier_bits &&
                     lowest(m.input) + lowest(m.second()) >= lowest(fp32);
  const bool minds = minds_rounding_twice(accumulator->direction);
  if (m.product) {
    auto product = planned(*m.product);
    if (!product || product->direction != accumulator->direction) return {};
    if (!flushes) flush_nothing(product->rounder);
    plan.product = *product;
    const FloatFormat& a = accumulator->format;
    if (product->format != a && (!holds(a, product->format) || !keeps_specials(a, product->format))) return {};
    if (product->rounder.way == Way::plain && accumulator->rounder.way != Way::plain &&
        !holds_products(a, m.input, m.second()))
      return {};
    if (holds_products(product->format, m.input, m.second())) {
      plan.product.rounder = unrounded(product->rounder);
      // An exact product leaves fma nothing else to do than multiplying and adding do.
      StepRule fused{{}, accumulator->rounder, accumulator->direction};
      fused.product.way = Way::fused;
      const bool tiny = flushes && lowest(m.input) + lowest(m.second()) < product->format.emin();
      if (!compensated && !tiny && accumulator->rounder.way == Way::plain && runs(fused))
        plan.product.rounder.way = Way::fused;
    } else if (product->rounder.way != Way::plain) {
      plan.odd_product = minds && !exact && product->rounder.way == Way::aligned;
      plan.odd_if_tiny = minds && product->rounder.way == Way::linear && !flushes;
    }
    if (product->rounder.way != Way::plain && accumulator->rounder.way != Way::plain &&
        product->rounder.way != accumulator->rounder.way && plan.product.rounder.way == product->rounder.way)
      return {};  // an aligner's stage after an integers' one, or the other way round
    plan.redo_nan = m.product->rounding.nan != plan.nan;
  } else if (accumulator->rounder.way == Way::plain) {
    plan.product.rounder.way = Way::fused;
  } else if (holds_products(accumulator->format, m.input, m.second())) {
    plan.product.rounder = {};
    if (flushes) plan.product.rounder.way = Way::fused;  // the first product is one of the sum's results
  } else {
    plan.product.rounder = {};
    plan.product.rounder.way = Way::fused;
    plan.odd_sum = minds;
    plan.signs_tell = false;  // fused sums can be tiny and lose their last bits
  }
  // Sums of two values.
  const bool too_long_to_split = accumulator->rounder.way == Way::aligned &&
                                 accumulator->direction == Direction::nearest &&
                                 accumulator->format.precision() > split_bits;
  if (too_long_to_split || (minds && accumulator->rounder.way != Way::plain &&
                            !sums_serve(accumulator->format, fp32, accumulator->direction)))
    plan.odd_sum = true;

  plan.exact_sums = are_sums_exact(accumulator->format);
  if (accumulator->direction == Direction::stochastic) {
    const bool converts = m.output && m.output->format != m.outer().format,
               short_products = m.input.precision() + m.second().precision() <= carrier_bits,
               exact_products = plan.product.rounder.way == Way::plain ||
                                (plan.product.rounder.way == Way::aligned && exact) ||
                                (plan.product.rounder.way == Way::linear && short_products);  // tiny ones are not here
    if (!runs_stochastic() || !exact_products || (converts && same_outer)) return {};
    plan.draws = draws_of(m);
  }

  if (flushes && !flushes_by_vectors(m, plan)) return {};
  if (outer->rounder.flushes() && plan.odd_sum) return {};
  plan.flushed_a = flushed(m.input, m.product.value_or(m.accumulator));
  plan.flushed_b = flushed(m.second(), m.product.value_or(m.accumulator));
  if (compensated) {
    if (plan.odd_product || plan.odd_sum) return {};
    plan.signs_tell = false;  // what cancels is zero of either sign
  }
  plan.halves = rule_of_halves(m);
  const bool by_adder = accumulator->direction != Direction::stochastic && !flushes &&
                        (plan.product.rounder.way == Way::aligned || accumulator->rounder.way == Way::aligned);
  plan.signless_zeros = (by_adder && !(plan.halves && plan.halves->sum.way == Way::plain)) ||
                        // What comes out of a fnuz stage is no -0, floats have one.
                        multiplier.has_negative_zero() != outer->format.has_negative_zero() ||
                        accumulator->format.has_negative_zero() != outer->format.has_negative_zero();
  if ((plan.product.direction == Direction::down) != (outer->direction == Direction::down) ||
      (accumulator->direction == Direction::down) != (outer->direction == Direction::down) ||
      plan.product.format.has_negative_zero() != outer->format.has_negative_zero() ||
      accumulator->format.has_negative_zero() != outer->format.has_negative_zero() ||
      multiplier.has_negative_zero() != outer->format.has_negative_zero())
    plan.signs_tell = false;
  plan.redo_nan = plan.redo_nan || keeps_payload(plan.nan) || m.outer().rounding.nan != plan.nan ||
                  (m.output && keeps_payload(m.output->rounding.nan));
  if (!runs({plan.product.rounder, plan.accumulator.rounder, accumulator->direction, plan.odd_product, plan.odd_sum}))
    return {};
  return plan;
}

StepRule Plan::addend_rule() const {
  StepRule rule{{}, outer.rounder, outer.direction, false, odd_sum && outer.rounder.way != Way::plain};
  // Only halves keep the signs of zeros in fp16's sums.
  if (halves && halves->sum.way == Way::plain && outer.format == accumulator.format) rule.carrier = Carrier::half;
  if (rule.sum.fix == Fix::clamp) rule.sum.fix = Fix::clamp_keep;
  rule.exact_sums = exact_sums && outer.rounder.way == Way::aligned;
  return rule;
}

}  // namespace halfulp::products
