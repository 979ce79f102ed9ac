#include <halfulp/emulation/product/rules.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::products {
namespace {

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

/// Whether an infinity becomes the largest value on its way into a stage of another format.
bool saturates_infinities(const DotModel& m) {
  const Stage& first = m.product ? *m.product : m.accumulator;
  const auto saturates = [](const FloatFormat& from, const Stage& to) {
    return from != to.format && from.has_infinity() && to.rounding.overflow == Overflow::saturate;
  };
  return saturates(m.input, first) || saturates(m.second(), first) || saturates(first.format, m.accumulator);
}

/// A power of two of which all the numbers are multiples.
double unit_of(const MagnitudeRange& x) { return std::ldexp(1.0, std::ilogb(x.min) + x.zeros - fp32.fraction_bits); }

DotModel without_flushing(DotModel m) {
  for (Stage* s : {&m.accumulator, m.product ? &*m.product : nullptr, m.promoted ? &*m.promoted : nullptr,
                   m.output ? &*m.output : nullptr})
    if (s) s->rounding.flush_inputs = s->rounding.flush_outputs = false;
  return m;
}

}  // namespace

RulesOfTiles::RulesOfTiles(const Plan& plan, const DotModel& model, std::size_t k)
    : base_{{plan.product.rounder, plan.accumulator.rounder, plan.accumulator.direction, plan.odd_product,
             plan.odd_sum},
            {{}, plan.outer.rounder, plan.outer.direction},
            plan.signless_zeros,
            plan.signs_tell},
      only_finite_(saturates_infinities(model)),
      odd_if_tiny_(plan.odd_if_tiny) {
  constexpr double any = std::numeric_limits<double>::infinity();
  base_.running.compensation = model.compensation;
  base_.outer = plan.addend_rule();
  base_.outer.sum.fix = plan.outer.rounder.fix;
  products_to_ = base_.running.product.way == Way::aligned ? base_.running.product.max : any;
  sums_to_ = any;
  least_product_ = FloatFormat::power_of_two(lowest(plan.product.format));
  const FloatFormat& f = plan.accumulator.format;
  const Direction direction = plan.accumulator.direction;
  const bool compensated = model.compensation != Compensation::none,
             outer_apart = model.promoted && plan.outer.rounder.way == Way::plain;
  const std::size_t terms = outer_apart && model.order == Order::blocked ? std::min(k, model.block) : k;
  // The largest products, powers of two, whose sums stay below a limit; larger products have larger sums. What rounding
  // makes of a product is zero, or at least the smallest number of the product's format.
  const auto products_to = [&](double limit) {
    const double growth = !compensated ? 1
                          : model.order == Order::sequential
                              ? compensated_growth(f, direction, model.compensation, terms)
                              : any;
    const auto fits = [&](int exponent) {
      const double products = std::max(std::ldexp(1.0, exponent), least_product_);
      return (compensated ? growth * products : largest_sum(f, direction, model, terms, products)) <= limit;
    };
    int fitting = lowest(f) - 1, beyond = f.emax() + 2;
    while (beyond - fitting > 1) {
      const int middle = fitting + (beyond - fitting) / 2;
      (fits(middle) ? fitting : beyond) = middle;
    }
    return fitting < lowest(f) ? -1 : std::ldexp(1.0, fitting);
  };
  if (base_.running.sum.way == Way::aligned) sums_to_ = products_to(base_.running.sum.max);
  if (base_.running.sum.way == Way::linear && base_.running.product.way != Way::fused && direction != Direction::zero &&
      is_of_environment(direction) && !compensated && !plan.flushes()) {
    normal_ = base_;
    normal_->signless_zeros = true;
    for (Rounder* r : {&normal_->running.product, &normal_->running.sum})
      if (r->way == Way::linear) {
        r->way = Way::normal;
        r->scale = 1.5f * r->shift();
      }
    const int tail = std::max(base_.running.product.tail, base_.running.sum.tail);
    normal_to_ = products_to(std::ldexp(1.0, fp32.emax() - 1 - tail));
    const bool to_bf16 = plan.accumulator.format == bf16 && direction == Direction::nearest && !plan.odd_sum &&
                         (plan.product.rounder.way == Way::plain || plan.product.format == bf16);
    if (to_bf16 && has_bf16_converter()) {
      converted_ = base_;
      converted_->running.product.way = converted_->running.sum.way = Way::converted;
    }
  }
  const auto in_reach = [](const PlannedStage& s) {
    return 2 * (s.format.emax() + 1) + fp32.precision() - s.format.precision() + 1 <= fp32.emax();
  };
  base_.running.exact_sums = plan.exact_sums && base_.running.sum.way == Way::aligned;
  const bool stochastic = direction == Direction::stochastic;
  in_floats_to_ = stochastic && base_.running.sum.way == Way::linear ? products_to(std::ldexp(1.0, fp32.emax())) : any;
  normal_from_ = base_.running.product.way == Way::plain ? 0 : FloatFormat::power_of_two(plan.product.format.emin());
  watched_to_ = base_.running.sum.way == Way::aligned ? products_to(0x1p60) : 0;
  product_in_reach_ = in_reach(plan.product), sum_in_reach_ = in_reach(plan.accumulator);
  fused_ = base_;
  fused_.running.product.way = Way::fused;
  may_fuse_ = model.compensation == Compensation::none && !plan.flushes() && plan.product.rounder.way == Way::plain &&
              plan.accumulator.rounder.way == Way::plain && runs(fused_.running);
  always_ = plan.product.rounder.way != Way::aligned && plan.accumulator.rounder.way != Way::aligned &&
            plan.outer.rounder.way != Way::aligned && !plan.odd_if_tiny && !stochastic;
  if (plan.halves) halves_ = TileRules{*plan.halves, base_.outer, plan.signless_zeros, plan.signs_tell};
  product_bits_ = plan.product.rounder.way == Way::fused ? 0 : plan.product.format.precision();
  least_normal_ = FloatFormat::power_of_two(std::max(plan.product.format.emin(), plan.accumulator.format.emin()));
  if (plan.flushes() && max_is_normal_multiple(plan.product.format) &&
      max_is_normal_multiple(plan.accumulator.format) && max_is_normal_multiple(plan.outer.format)) {
    const DotModel same = without_flushing(model);
    if (const auto other = make_plan(same)) unflushed_ = std::make_unique<RulesOfTiles>(*other, same, k);
  }
}

/// A power of two of which all products and sums are multiples. Rounding keeps it so: a number that the format holds
/// stays, every other one becomes a multiple of a larger power of two. What overflows may become the largest value,
/// about which max_is_normal_multiple is asked.
double RulesOfTiles::unit(const MagnitudeRange& a, const MagnitudeRange& b) const {
  const double exact = unit_of(a) * unit_of(b);
  if (product_bits_ == 0) return exact;
  return std::max(exact, std::ldexp(1.0, std::ilogb(static_cast<double>(a.min) * b.min) + 1 - product_bits_));
}

bool RulesOfTiles::fuses(const MagnitudeRange& a, const MagnitudeRange& b) const {
  // Products of so few bits, neither tiny nor beyond the largest, are exact.
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  return may_fuse_ && a.zeros + b.zeros >= fp32.precision() && smallest >= std::numeric_limits<float>::min() &&
         largest <= std::numeric_limits<float>::max();
}

const TileRules* RulesOfTiles::operator()(const MagnitudeRange& a, const MagnitudeRange& b, TileRules& room) const {
  if (unflushed_ && unit(a, b) >= least_normal_) {
    if (const TileRules* rules = (*unflushed_)(a, b, room)) return rules;
  }
  const bool finite = a.finite && b.finite;
  if (only_finite_ && !finite) return {};
  if (halves_ && halves_->running.sum.way == Way::plain) return &*halves_;
  const double largest = static_cast<double>(a.max) * b.max, smallest = static_cast<double>(a.min) * b.min;
  const bool tiny = smallest < std::numeric_limits<float>::min();
  // Sums are multiples of the last place of the smallest product, rounded.
  if (converted_ && finite && smallest >= 0x1p-119 && largest <= normal_to_) return &*converted_;
  if (normal_ && finite && !tiny && largest <= normal_to_) return &*normal_;
  const TileRules& chosen = fuses(a, b) ? fused_ : base_;
  if (always_) return &chosen;
  TileRules& rules = room = chosen;
  Rounder &of_products = rules.running.product, &of_sums = rules.running.sum;
  const bool compensated = rules.running.compensation != Compensation::none;
  const bool products_fit = of_products.way != Way::aligned || (finite && largest <= products_to_);
  const bool sums_fit = of_sums.way != Way::aligned || (finite && products_fit && largest <= sums_to_);
  const auto choose = [&](Fix& fix, bool fit) {
    fix = fit ? Fix::none : fix == Fix::clamp && (!finite || compensated || of_sums.flushes()) ? Fix::clamp_keep : fix;
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
  if (rules.outer.sum.way == Way::aligned)
    rules.outer.sum.fix = of_sums.fix == Fix::clamp && rules.outer.sum.flushes() ? Fix::clamp_keep : of_sums.fix;
  rules.running.watchable = of_sums.way == Way::aligned && of_sums.fix != Fix::none && of_products.fix == Fix::none &&
                            finite && largest <= watched_to_ && !compensated && !of_sums.flushes() &&
                            rules.running.direction != Direction::stochastic;
  if (rules.running.watchable) {
    // A step adds a product, which rounding at most doubles, or makes the smallest number, and rounds the sum.
    constexpr unsigned steps = 4;
    const double place = std::ldexp(1.0, std::ilogb(of_sums.max) - fp32.precision() + of_sums.tail + 1),
                 limit = of_sums.max - (steps - 1) * (std::max(2 * largest, least_product_) + place);
    rules.running.watch_step = limit >= of_sums.max / 2 ? steps : 1;
    rules.running.watch_limit = limit >= of_sums.max / 2 ? static_cast<float>(limit) : of_sums.max;
    // Sums that overflow after all can stay beyond: products, rounded or exact, are numbers of the sums' format.
    if (!rules.running.odd_sum && of_products.way != Way::fused &&
        of_sums.fix == fix_of_overflow(rules.running.direction))
      of_sums.fix = Fix::late;
  }
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

}  // namespace halfulp::products
