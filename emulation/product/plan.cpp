#include <halfulp/emulation/array/half.hpp>
#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/product/half.hpp>
#include <halfulp/emulation/product/plan.hpp>
#include <halfulp/emulation/round_pack.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::products {
namespace {

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
  if (!direction || r.flush_inputs || r.flush_outputs) return {};
  if (!is_of_environment(*direction) && (carrier == Carrier::half || f == format_of(carrier))) return {};
  if (*direction == Direction::stochastic &&
      (r.variant != StochasticVariant::truncate || r.random_bits != max_random_bits))
    return {};
  PlannedStage stage{f, {}, *direction};
  if (f == format_of(carrier) && r.overflow == Overflow::ieee) return stage;
  Rounder& to = stage.rounder;
  to.tail = format_of(carrier).precision() - f.precision();
  if (is_shortened(f, carrier) && r.overflow == Overflow::ieee) {
    to.way = Way::linear;
    return stage;
  }
  if (!takes_aligner(f, carrier)) return {};
  to.way = Way::aligned;
  to.emin = static_cast<float>(FloatFormat::power_of_two(f.emin()));
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
    if (direction == Direction::nearest || direction == Direction::zero || direction == Direction::ties_to_zero)
      return whole * p;
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
  if (m.output && (m.output->rounding.flush_inputs || m.output->rounding.mode == RoundingMode::stochastic)) return {};
  const FloatFormat& multiplier = m.product ? m.product->format : m.accumulator.format;
  if (!keeps_specials(multiplier, m.input) || !keeps_specials(multiplier, m.second())) return {};

  const auto accumulator = planned(m.accumulator), outer = planned(m.outer());
  if (!accumulator || !outer) return {};
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
      plan.odd_product = minds && !exact && product->rounder.way == Way::aligned;
      plan.odd_if_tiny = minds && product->rounder.way == Way::linear;
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
    plan.odd_sum = minds;
    plan.signs_tell = false;  // fused sums can be tiny and lose their last bits
  }
  // Sums of two values.
  if (minds && accumulator->rounder.way != Way::plain && !sums_serve(accumulator->format, fp32, accumulator->direction))
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

  if (compensated) {
    if (plan.odd_product || plan.odd_sum) return {};
    plan.signs_tell = false;  // what cancels is zero of either sign
  }
  plan.halves = rule_of_halves(m);
  const bool by_adder = accumulator->direction != Direction::stochastic &&
                        (plan.product.rounder.way == Way::aligned || accumulator->rounder.way == Way::aligned);
  plan.signless_zeros = (by_adder && !(plan.halves && plan.halves->sum.way == Way::plain)) ||
                        multiplier.has_negative_zero() !=
                            outer->format.has_negative_zero();  // fnuz products have no -0, floats do
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

namespace {

/// Whether an infinity becomes the largest value on its way into a stage of another format.
bool saturates_infinities(const DotModel& m) {
  const Stage& first = m.product ? *m.product : m.accumulator;
  const auto saturates = [](const FloatFormat& from, const Stage& to) {
    return from != to.format && from.has_infinity() && to.rounding.overflow == Overflow::saturate;
  };
  return saturates(m.input, first) || saturates(m.second(), first) || saturates(first.format, m.accumulator);
}

}  // namespace

RulesOfTiles::RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k)
    : base_{{plan.product.rounder, plan.accumulator.rounder, plan.accumulator.direction, plan.odd_product,
             plan.odd_sum},
            {{}, plan.outer.rounder, plan.outer.direction}},
      only_finite_(saturates_infinities(model)),
      odd_if_tiny_(plan.odd_if_tiny) {
  constexpr double any = std::numeric_limits<double>::infinity();
  base_.running.compensation = model.compensation;
  base_.outer = plan.addend_rule();
  base_.outer.sum.fix = plan.outer.rounder.fix;
  products_to_ = base_.running.product.way == Way::aligned ? base_.running.product.max : any;
  sums_to_ = any;
  const FloatFormat& f = plan.accumulator.format;
  const Direction direction = plan.accumulator.direction;
  const bool compensated = model.compensation != Compensation::none,
             outer_apart = model.promoted && plan.outer.rounder.way == Way::plain;
  const std::size_t terms = outer_apart && model.order == Order::blocked ? std::min(k, model.block) : k;
  // The largest products whose sums stay below a limit. Powers of two, from the top: a few hundred steps at most.
  const auto products_to = [&](double limit) {
    const double growth = !compensated ? 1
                          : model.order == Order::sequential
                              ? compensated_growth(f, direction, model.compensation, terms)
                              : any;
    const auto fits = [&](int exponent) {
      const double products = std::ldexp(1.0, exponent);
      return (compensated ? growth * products : largest_sum(f, direction, model, terms, products)) <= limit;
    };
    int e = f.emax() + 1;
    while (e >= lowest(f) && !fits(e)) --e;
    return fits(e) ? std::ldexp(1.0, e) : -1;
  };
  if (base_.running.sum.way == Way::aligned) sums_to_ = products_to(base_.running.sum.max);
  if (base_.running.sum.way == Way::linear && base_.running.product.way != Way::fused && direction != Direction::zero &&
      is_of_environment(direction) && !compensated) {
    normal_ = base_;
    for (Rounder* r : {&normal_->running.product, &normal_->running.sum})
      if (r->way == Way::linear) {
        r->way = Way::normal;
        r->scale = static_cast<float>(std::ldexp(1.5, r->tail));
      }
    normal_to_ = products_to(std::ldexp(1.0, fp32.emax() - 1 - base_.running.sum.tail));
  }
  const auto in_reach = [](const PlannedStage& s) {
    return 2 * (s.format.emax() + 1) + fp32.precision() - s.format.precision() + 1 <= fp32.emax();
  };
  base_.running.exact_sums = plan.exact_sums && base_.running.sum.way == Way::aligned;
  const bool stochastic = direction == Direction::stochastic;
  in_floats_to_ = stochastic && base_.running.sum.way == Way::linear ? products_to(std::ldexp(1.0, fp32.emax())) : any;
  normal_from_ = base_.running.product.way == Way::plain ? 0 : FloatFormat::power_of_two(plan.product.format.emin());
  watched_to_ = 0x1p60 / static_cast<double>(k);
  product_in_reach_ = in_reach(plan.product), sum_in_reach_ = in_reach(plan.accumulator);
  fused_ = base_;
  fused_.running.product.way = Way::fused;
  may_fuse_ = model.compensation == Compensation::none && plan.product.rounder.way == Way::plain &&
              plan.accumulator.rounder.way == Way::plain && runs(fused_.running);
  always_ = plan.product.rounder.way != Way::aligned && plan.accumulator.rounder.way != Way::aligned &&
            plan.outer.rounder.way != Way::aligned && !plan.odd_if_tiny && !stochastic;
  if (plan.halves) halves_ = TileRules{*plan.halves, base_.outer};
}

bool RulesOfTiles::fuses(const MagnitudeRange& a, const MagnitudeRange& b) const {
  // Products of so few bits, neither tiny nor beyond the largest, are exact.
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  return may_fuse_ && a.zeros + b.zeros >= fp32.precision() && smallest >= std::numeric_limits<float>::min() &&
         largest <= std::numeric_limits<float>::max();
}

const TileRules* RulesOfTiles::operator()(const MagnitudeRange& a, const MagnitudeRange& b, TileRules& room) const {
  const bool finite = a.finite && b.finite;
  if (only_finite_ && !finite) return {};
  if (halves_ && halves_->running.sum.way == Way::plain) return &*halves_;
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  const bool tiny = smallest < std::numeric_limits<float>::min();
  if (normal_ && finite && !tiny && largest <= normal_to_) return &*normal_;
  const TileRules& chosen = fuses(a, b) ? fused_ : base_;
  if (always_) return &chosen;
  TileRules& rules = room = chosen;
  Rounder &of_products = rules.running.product, &of_sums = rules.running.sum;
  const bool compensated = rules.running.compensation != Compensation::none;
  const bool products_fit = of_products.way != Way::aligned || (finite && largest <= products_to_);
  const bool sums_fit = of_sums.way != Way::aligned || (finite && products_fit && largest <= sums_to_);
  const auto choose = [&](Fix& fix, bool fit) {
    fix = fit ? Fix::none : fix == Fix::clamp && (!finite || compensated) ? Fix::clamp_keep : fix;
  };
  if (halves_) {
    StepRule half = halves_->running;
    choose(half.product.fix, half.product.way != Way::aligned || products_fit);
    choose(half.sum.fix, half.sum.way != Way::aligned || sums_fit);
    // Halves do not tell an infinite operand from what goes beyond the largest.
    const auto keeps_infinity = [](Fix fix) {
      return fix == Fix::clamp_keep || fix == Fix::over_up || fix == Fix::over_down;
    };
    const bool one_fix = half.product.fix == Fix::none || half.product.fix == half.sum.fix;
    if (one_fix && (finite || !(keeps_infinity(half.product.fix) || keeps_infinity(half.sum.fix)))) {
      rules.running = half;
      choose(rules.outer.sum.fix, sums_fit);
      return &rules;
    }
  }
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
  rules.running.watchable = of_sums.way == Way::aligned && of_sums.fix != Fix::none && of_products.fix == Fix::none &&
                            finite && largest <= watched_to_ && !compensated &&
                            rules.running.direction != Direction::stochastic;
  if (rules.running.direction == Direction::stochastic) {
    rules.running.tiny_products = smallest < normal_from_;
    if (largest > in_floats_to_ || (rules.running.tiny_products && of_products.way == Way::linear)) return {};
  }
  if (odd_if_tiny_ && tiny) {
    rules.running.odd_product = true;
    if (compensated || !runs(rules.running)) return {};
  }
  return &rules;
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
