// The interpreter of the fused dot-product-add, and the two rules that are made of it.
#include <halfulp/emulation/unit/rules.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/known.hpp>

#include <algorithm>
#include <vector>

namespace halfulp::units {

std::uint64_t special_result(const MatrixUnit& unit, const Special& special) {
  return special.kind == Kind::nan ? unit.sum.nan : unit.accumulator.infinity(special.sign);
}

std::uint64_t fused_sum(const MatrixUnit& unit, std::span<const Term> terms) {
  const FusedSum& rule = unit.sum;
  Special special;
  bool negative = true;  // whether all terms are
  for (const Term& t : terms) special.meet(t), negative = negative && t.sign;
  if (special.kind != Kind::finite) return special_result(unit, special);

  const int emax = largest_exponent(terms, rule.least_exponent);
  int128 sum = 0;
  for (const Term& t : terms) sum += aligned(t, emax, rule.alignment_bits, rule.alignment);
  const FloatFormat& d = unit.accumulator;
  if (sum == 0) {
    // Terms that cancel or are truncated to 0 give +0. Only zeros of one sign keep it.
    const bool zeros = std::all_of(terms.begin(), terms.end(), [](const Term& t) { return t.kind == Kind::zero; });
    return d.zero(rule.zero == ZeroSign::ieee && zeros && negative);
  }
  const std::uint64_t code =
      round_sum(rule.kept, rule.rounding, sum, emax - rule.alignment_bits, rule.flush_outputs).code;
  if (rule.zero == ZeroSign::positive && rule.kept.is_zero(code)) return d.zero();
  return code << (d.fraction_bits - rule.kept.fraction_bits);
}

namespace {

Term normal(const FusedSum& rule, const Term& t) { return rule.normalized_products ? normalized_term(t) : t; }

std::uint64_t fused_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const FusedSum& rule = unit.sum;
  const auto length = static_cast<std::size_t>(rule.length);
  const std::size_t sums = x.a.size() / length;
  std::vector<Term> terms(length + 1);
  for (std::size_t s = 0; s < sums; ++s) {
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t k = product_of(unit, sums, s, i);
      Term p = product(term(unit.a, rule, word_code(unit.a, x.a[k])), term(unit.b, rule, word_code(unit.b, x.b[k])));
      if (unit.scaled()) {
        const std::size_t block = k / static_cast<std::size_t>(unit.scale_block);
        const Term scale = product(term(unit.scale, rule, x.scale_a[block]), term(unit.scale, rule, x.scale_b[block]));
        if (scale.kind == Kind::nan) p.kind = Kind::nan;
        p.exponent += scale.exponent;
      }
      terms[i] = normal(rule, p);
    }
    terms[length] = normal(rule, term(unit.accumulator, rule, c));
    c = fused_sum(unit, terms);
  }
  return c;
}

/// Groups of 16 products of e2m1 are added exactly: multiples of 1/4 below 2^10. Their scales' significands multiply
/// the sum, and only the scales' exponents align it.
std::uint64_t scaled_groups_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const FusedSum& rule = unit.sum;
  // A scale is unsigned: ue4m3 is e4m3 whose sign bit is ignored.
  const auto scale = [&](std::uint64_t code) { return term(unit.scale, rule, unit.scale.magnitude(code)); };
  std::vector<Term> terms;
  for (std::size_t begin = 0; begin < x.a.size(); begin += std::size_t{group_length}) {
    int128 total = 0;  // in units of the last place of the smallest product: exponents of e2m1 are at least 0
    for (std::size_t k = begin; k < begin + group_length; ++k) {
      const Term p = product(term(unit.a, rule, x.a[k]), term(unit.b, rule, x.b[k]));
      if (p.kind == Kind::finite) total += (p.sign ? -1 : 1) * static_cast<int128>(p.significand << p.exponent);
    }
    const std::size_t block = begin / static_cast<std::size_t>(unit.scale_block);
    Term sum = product(scale(x.scale_a[block]), scale(x.scale_b[block]));
    if (total == 0 && sum.kind == Kind::finite) sum.kind = Kind::zero;
    if (total == 0 && sum.kind == Kind::infinite)
      sum.kind = Kind::nan;  // a scale of Inf: no format of the table has one
    sum.sign = total < 0;
    sum.significand *= static_cast<uint128>(total < 0 ? -total : total);
    sum.fraction_bits += unit.a.fraction_bits + unit.b.fraction_bits;
    terms.push_back(sum);
  }
  terms.push_back(term(unit.accumulator, rule, c));
  return fused_sum(unit, terms);
}

/// Hopper has no FP8 instruction for mma.sync. Two sums of 16 products start from 0, first those with k mod 4 in {0,
/// 1}, then those in {2, 3}; C is added afterwards, to nearest.
std::uint64_t halves_apart_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const auto length = static_cast<std::size_t>(unit.sum.length);
  std::vector<Term> terms(length + 1);
  std::uint64_t d = 0;
  for (const std::size_t half : {0, 1}) {
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t k = product_of(unit, 2, half, i);
      // ptxas first converts operands to fp16. That normalises every value that is not subnormal in fp16.
      const auto half_term = [&](const FloatFormat& f, std::uint64_t code) {
        Term t = normalized_term(term(f, unit.sum, code));
        const int below = fp16.emin() - t.exponent;
        if (t.kind == Kind::finite && below > 0) t.exponent += below, t.fraction_bits += below;
        return t;
      };
      terms[i] = product(half_term(unit.a, x.a[k]), half_term(unit.b, x.b[k]));
    }
    terms[length] = term(unit.accumulator, unit.sum, d);
    d = fused_sum(unit, terms);
  }
  return with_nan(unit, evaluate<Operation::add>(unit.accumulator, {}, c, d).code);
}

std::string fused_refusal(const MatrixUnit& unit) {
  if (unit.scaled() && (unit.scale.is_signed || unit.scale.fraction_bits != 0))
    return "scale " + format_name(unit.scale) + ": the rule fused takes powers of two, such as e8m0";
  return {};
}

std::string scaled_groups_refusal(const MatrixUnit& unit) {
  if (unit.a != e2m1 || unit.b != e2m1)
    return "the rule scaled-groups takes operands of e2m1, not " + format_name(unit.a == e2m1 ? unit.b : unit.a);
  if (!unit.scaled() || unit.scale_block % group_length != 0 || unit.sum.length % group_length != 0)
    return "the rule scaled-groups takes scales; length and scale_block are multiples of " +
           std::to_string(group_length);
  if (unit.scale.precision() > 8)
    return "scale " + format_name(unit.scale) + ": the rule scaled-groups takes scales of up to 8 significant bits";
  return {};
}

std::string halves_apart_refusal(const MatrixUnit& unit) {
  for (const FloatFormat& f : {unit.a, unit.b})
    if (!holds(fp16, f))
      return "the rule halves-apart converts operands to fp16, which does not hold every value of " + format_name(f);
  if (unit.scaled()) return "scale: the rule halves-apart takes no scales";
  if (unit.sum.length % 2 != 0)
    return "the rule halves-apart takes pairs: length is even, not " + std::to_string(unit.sum.length);
  return {};
}

}  // namespace
}  // namespace halfulp::units

namespace halfulp::rules {
const Rule fused{"fused", "L products and C are cut to one quantum, added exactly and rounded once", units::fused_step,
                 units::fused_refusal, RuleTakes::all};
const Rule scaled_groups{"scaled-groups", "exact sums of 16 products times their scales are cut to one quantum with C",
                         units::scaled_groups_step, units::scaled_groups_refusal, RuleTakes::sum};
const Rule halves_apart{"halves-apart", "two fused sums of converted operands from 0, then C is added to nearest",
                        units::halves_apart_step, units::halves_apart_refusal, RuleTakes::sum};
}  // namespace halfulp::rules
