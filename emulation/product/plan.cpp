#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/product/plan.hpp>
#include <halfulp/emulation/round_pack.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::products {
namespace {

constexpr int carrier_bits = 24, carrier_lowest = -149;

int lowest(const FloatFormat& f) { return f.emin() - f.fraction_bits; }
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
    default: return {};
  }
}

/// Values and their halves are normal floats, and so are the aligner of values up to 2^(emax + 2) and half of it.
bool takes_aligner(const FloatFormat& f) {
  return f.is_signed && f.has_zero && f.fraction_bits >= 1 && f.precision() <= carrier_bits - 2 &&
         f.max_finite() >= f.min_normal() && lowest(f) > fp32.emin() &&
         f.emax() + 2 + carrier_bits - f.fraction_bits <= fp32.emax();
}

std::optional<PlannedStage> planned(const Stage& s) {
  const FloatFormat& f = s.format;
  const Rounding& r = s.rounding;
  const auto direction = direction_of(r.mode);
  if (!direction || r.flush_inputs || r.flush_outputs) return {};
  PlannedStage stage{f, {}, *direction};
  if (f == fp32 && r.overflow == Overflow::ieee) return stage;
  Rounder& to = stage.rounder;
  if (array::short_float(f) && r.overflow == Overflow::ieee) {
    to.way = Way::linear;
    to.tail = carrier_bits - f.precision();
    return stage;
  }
  if (!takes_aligner(f)) return {};
  to.way = Way::aligned;
  to.emin = static_cast<float>(FloatFormat::power_of_two(f.emin()));
  to.scale = static_cast<float>((*direction == Direction::zero ? 1.0 : 1.5) *
                                FloatFormat::power_of_two(carrier_bits - f.precision()));
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

/// The largest magnitude that sums of k terms up to `largest` can reach in a format. Rounding is monotonic: no sum is
/// larger than that of k terms P, a power of two not below `largest`. The multiples of P up to 2^p P are values of the
/// format; sums that add P one by one stay there, but grow by a factor of 2 for 2^(p-1) terms in the mode that rounds
/// them up.
double largest_sum(const FloatFormat& f, Direction direction, const DotModel& model, std::size_t k, double largest) {
  const double p = std::max(std::exp2(std::ceil(std::log2(std::max(largest, 1e-300)))),
                            FloatFormat::power_of_two(std::max(lowest(f), -1000)));
  const auto terms = static_cast<double>(k), whole = std::exp2(f.precision());
  if (terms <= whole) return terms * p;
  if (model.order == Order::sequential) {
    if (direction == Direction::nearest || direction == Direction::zero) return whole * p;
    return whole * p * std::exp2(std::ceil((terms - whole) / (whole / 2)));
  }
  return terms * p * std::pow(1 + 2 / whole, terms);  // every addition rounds up by one place at most
}

/// How many times as large as its products a compensated sum of k terms and every number on its way can be. A sum is
/// rounded by at most u of itself. In each step, with |x| <= 1, |s| <= S, |c| <= C and |t - (s + y)| <= u (S + Y), the
/// differences are bounded by what they would be without rounding, and by u of each rounding.
double compensated_growth(const FloatFormat& f, Direction direction, Compensation compensation, std::size_t k) {
  const double u = std::exp2((direction == Direction::nearest ? 0 : 1) - f.precision()), up = 1 + u;
  double s = 1, c = 0, largest = 1;
  for (std::size_t i = 1; i < k && largest < 1e30; ++i) {
    const bool kahan = compensation == Compensation::kahan;
    const double y = kahan ? (1 + c) * up : 1, t = (s + y) * up, e = (y + u * (s + y)) * up;
    const double rest = (u * (s + y) + u * (y + u * (s + y))) * up;  // e - y, or e + y
    c = kahan ? rest : (c + rest) * up;
    s = t;
    largest = std::max({largest, t, e, y, (s + c) * up});
  }
  return largest * 1.01;  // for the rounding of these numbers themselves
}

}  // namespace

std::optional<Plan> make_plan(const DotModel& m) {
  const bool compensated = m.compensation != Compensation::none;
  if (compensated && m.order == Order::blocked) return {};  // sums of blocks are compensated too
  for (const FloatFormat* f : {&m.input, &m.second(), &m.result()})
    if (!holds(fp32, *f) || !f->has_zero || f->storage_bits() > 32) return {};
  if (m.output && m.output->rounding.flush_inputs) return {};
  const FloatFormat& multiplier = m.product ? m.product->format : m.accumulator.format;
  if (!keeps_specials(multiplier, m.input) || !keeps_specials(multiplier, m.second())) return {};

  const auto accumulator = planned(m.accumulator), outer = planned(m.outer());
  if (!accumulator || !outer) return {};
  const bool same_outer = !m.promoted || *m.promoted == m.accumulator;
  if (!same_outer && (outer->rounder.way != Way::plain || !keeps_specials(outer->format, accumulator->format) ||
                      !holds(fp32, accumulator->format)))
    return {};

  Plan plan{*accumulator, *accumulator, *outer, false, false, false, false, true, false, m.accumulator.rounding.nan};
  const bool exact = m.input.precision() + m.second().precision() <= carrier_bits &&
                     lowest(m.input) + lowest(m.second()) >= carrier_lowest;
  const bool nearest = accumulator->direction == Direction::nearest;
  if (m.product) {
    const auto product = planned(*m.product);
    if (!product || product->direction != accumulator->direction) return {};
    plan.product = *product;
    const FloatFormat& a = accumulator->format;
    if (product->format != a && (!holds(a, product->format) || !keeps_specials(a, product->format))) return {};
    if (product->rounder.way == Way::plain && accumulator->rounder.way != Way::plain &&
        !holds_products(a, m.input, m.second()))
      return {};
    if (holds_products(product->format, m.input, m.second())) {
      plan.product.rounder = {};
      // An exact product leaves fma nothing else to do than multiplying and adding do.
      StepRule fused{{}, accumulator->rounder, accumulator->direction};
      fused.product.way = Way::fused;
      if (!compensated && accumulator->rounder.way == Way::plain && runs(fused)) plan.product.rounder.way = Way::fused;
    } else if (product->rounder.way != Way::plain) {
      plan.odd_product = nearest && !exact && product->rounder.way == Way::aligned;
      plan.odd_if_tiny = nearest && product->rounder.way == Way::linear;
    }
    if (product->rounder.way != Way::plain && accumulator->rounder.way != Way::plain &&
        product->rounder.way != accumulator->rounder.way && plan.product.rounder.way == product->rounder.way)
      return {};  // an aligner's stage after an integers' one, or the other way round
    plan.redo_nan = m.product->rounding.nan != plan.nan;
  } else if (accumulator->rounder.way == Way::plain) {
    plan.product.rounder.way = Way::fused;
  } else if (holds_products(accumulator->format, m.input, m.second())) {
    plan.product.rounder = {};
  } else {
    plan.product.rounder = {};
    plan.product.rounder.way = Way::fused;
    plan.odd_sum = nearest;
    plan.signs_tell = false;  // fused sums can be tiny and lose their last bits
  }
  // Sums of two values to nearest.
  const FloatFormat& f = accumulator->format;
  const bool sums_exact = f.emax() + 2 - lowest(f) <= carrier_bits;
  if (nearest && accumulator->rounder.way == Way::aligned && !sums_exact && 2 * f.precision() + 2 > carrier_bits)
    plan.odd_sum = true;

  if (compensated) {
    if (plan.odd_product || plan.odd_sum) return {};
    plan.signs_tell = false;  // what cancels is zero of either sign
  }
  plan.signless_zeros = plan.product.rounder.way == Way::aligned || accumulator->rounder.way == Way::aligned ||
                        multiplier.has_negative_zero() !=
                            outer->format.has_negative_zero();  // fnuz products have no -0, floats do
  if ((plan.product.direction == Direction::down) != (outer->direction == Direction::down) ||
      (accumulator->direction == Direction::down) != (outer->direction == Direction::down) ||
      plan.product.format.has_negative_zero() != outer->format.has_negative_zero() ||
      accumulator->format.has_negative_zero() != outer->format.has_negative_zero() ||
      multiplier.has_negative_zero() != outer->format.has_negative_zero())
    plan.signs_tell = false;
  plan.redo_nan = plan.redo_nan || plan.nan == NanRule::propagate || m.outer().rounding.nan != plan.nan;
  if (!runs({plan.product.rounder, plan.accumulator.rounder, accumulator->direction, plan.odd_product, plan.odd_sum}))
    return {};
  return plan;
}

RulesOfTiles::RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k)
    : base_{{plan.product.rounder, plan.accumulator.rounder, plan.accumulator.direction, plan.odd_product,
             plan.odd_sum},
            {{}, plan.outer.rounder, plan.outer.direction}},
      odd_if_tiny_(plan.odd_if_tiny) {
  constexpr double any = std::numeric_limits<double>::infinity();
  base_.running.compensation = model.compensation;
  base_.outer.odd_sum = plan.odd_sum && plan.outer.rounder.way == Way::aligned;
  products_to_ = base_.running.product.way == Way::aligned ? base_.running.product.max : any;
  sums_to_ = any;
  const bool outer_apart = model.promoted && plan.outer.rounder.way == Way::plain;
  if (base_.running.sum.way == Way::aligned) {
    const std::size_t terms = outer_apart && model.order == Order::blocked ? std::min(k, model.block) : k;
    // Powers of two, from the top: the search takes a few hundred steps at most.
    int e = plan.accumulator.format.emax() + 1;
    const bool compensated = model.compensation != Compensation::none;
    const double growth = !compensated ? 1
                          : model.order == Order::sequential
                              ? compensated_growth(plan.accumulator.format, plan.accumulator.direction,
                                                   model.compensation, terms)
                              : any;
    const auto fits = [&](int exponent) {
      const double products = std::ldexp(1.0, exponent);
      return (compensated ? growth * products
                          : largest_sum(plan.accumulator.format, plan.accumulator.direction, model, terms, products)) <=
             base_.running.sum.max;
    };
    while (e >= lowest(plan.accumulator.format) && !fits(e)) --e;
    sums_to_ = fits(e) ? std::ldexp(1.0, e) : -1;
  }
  const auto in_reach = [](const PlannedStage& s) {
    return 2 * (s.format.emax() + 1) + carrier_bits - s.format.precision() + 1 <= fp32.emax();
  };
  product_in_reach_ = in_reach(plan.product), sum_in_reach_ = in_reach(plan.accumulator);
  fused_ = base_;
  fused_.running.product.way = Way::fused;
  may_fuse_ = model.compensation == Compensation::none && plan.product.rounder.way == Way::plain &&
              plan.accumulator.rounder.way == Way::plain && runs(fused_.running);
  always_ = plan.product.rounder.way != Way::aligned && plan.accumulator.rounder.way != Way::aligned &&
            plan.outer.rounder.way != Way::aligned && !plan.odd_if_tiny;
}

bool RulesOfTiles::fuses(const MagnitudeRange& a, const MagnitudeRange& b) const {
  // Products of so few bits, neither tiny nor beyond the largest, are exact.
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  return may_fuse_ && a.zeros + b.zeros >= carrier_bits && smallest >= std::numeric_limits<float>::min() &&
         largest <= std::numeric_limits<float>::max();
}

const TileRules* RulesOfTiles::operator()(const MagnitudeRange& a, const MagnitudeRange& b, TileRules& room) const {
  const TileRules& chosen = fuses(a, b) ? fused_ : base_;
  if (always_) return &chosen;
  TileRules& rules = room = chosen;
  Rounder &of_products = rules.running.product, &of_sums = rules.running.sum;
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  const bool compensated = rules.running.compensation != Compensation::none, finite = a.finite && b.finite;
  const bool products_fit = of_products.way != Way::aligned || (finite && largest <= products_to_);
  const bool sums_fit = of_sums.way != Way::aligned || (finite && products_fit && largest <= sums_to_);
  const auto choose = [&](Fix& fix, bool fit) {
    fix = fit ? Fix::none : fix == Fix::clamp && (!finite || compensated) ? Fix::clamp_keep : fix;
  };
  if (of_products.way == Way::aligned) {
    choose(of_products.fix, products_fit);
    if (!products_fit && !product_in_reach_) return {};
  }
  if (of_sums.way == Way::aligned) {
    choose(of_sums.fix, sums_fit);
    if (!sums_fit && !sum_in_reach_) return {};
    if (of_products.fix != Fix::none && of_products.fix != of_sums.fix) return {};
    if (of_products.way != Way::aligned && !sums_fit && !(largest <= 0x1p60)) return {};
  }
  if (rules.outer.sum.way == Way::aligned) rules.outer.sum.fix = of_sums.fix;
  if (odd_if_tiny_ && smallest < std::numeric_limits<float>::min()) {
    rules.running.odd_product = true;
    if (compensated || !runs(rules.running)) return {};
  }
  return &rules;
}

StepRule Plan::addend_rule() const {
  StepRule rule{{}, outer.rounder, outer.direction, false, odd_sum && outer.rounder.way == Way::aligned};
  if (rule.sum.fix == Fix::clamp) rule.sum.fix = Fix::clamp_keep;
  return rule;
}

}  // namespace halfulp::products
