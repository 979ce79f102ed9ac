// The rules of AMD's CDNA1 and CDNA3. Sources: Xie et al., arXiv 2511.10909; Khattak & Mikaitis, arXiv 2512.07004.
#include <halfulp/emulation/unit/rules.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <vector>

namespace halfulp::units {
namespace {

std::vector<Term> products_of(const MatrixUnit& unit, const DotOperands& x) {
  std::vector<Term> terms;
  for (std::size_t k = 0; k < x.a.size(); ++k)
    terms.push_back(
        product(term(unit.a, unit.sum, word_code(unit.a, x.a[k])), term(unit.b, unit.sum, word_code(unit.b, x.b[k]))));
  return terms;
}

/// The special value of the sum, if it has one.
Special special_of(std::span<const Term> products, const Term& c) {
  Special special;
  for (const Term& t : products) special.meet(t);
  special.meet(c);
  return special;
}

constexpr int scale = 320;  ///< products of bf16 are multiples of 2^-266, of fp32 of 2^-298

std::uint64_t exact_sum_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  std::vector<Term> terms = products_of(unit, x);
  terms.push_back(term(unit.accumulator, unit.sum, c));
  Special special;
  for (const Term& t : terms) special.meet(t);
  if (special.kind != Kind::finite) return special_result(unit, special);

  using Sum = boost::multiprecision::int1024_t;  // 320 bits below 1, 266 above for fp32
  Sum sum = 0;
  for (const Term& t : terms) {
    if (t.kind != Kind::finite) continue;
    const Sum magnitude = Sum(static_cast<std::uint64_t>(t.significand)) << (t.exponent - t.fraction_bits + scale);
    if (t.sign) sum -= magnitude;
    else sum += magnitude;
  }
  if (sum == 0) return unit.accumulator.zero();
  const bool sign = sum < 0;
  const Sum magnitude = abs(sum);
  const int cut = std::max(0, static_cast<int>(msb(magnitude)) - 60);
  const Sum kept = magnitude >> cut;
  const bool sticky = (kept << cut) != magnitude;
  return round_pack(unit.accumulator, {}, Exact<uint128>{sign, cut - scale, static_cast<std::uint64_t>(kept) | sticky})
      .code;
}

constexpr int product_bits = 24, sum_bits = 31, addend_bits = 24;
constexpr int smallest = -100'000;  ///< an exponent below every term's

/// x * 2^shift, towards minus infinity.
int128 floor_shift(int128 x, int shift) { return shift >= 0 ? x << shift : x >> std::min(-shift, 127); }

/// Products as integers in units of 2^(exponent - product_bits).
struct PartialSum {
  int exponent;
  int128 value = 0;

  explicit PartialSum(std::span<const Term> terms) : exponent(largest_exponent(terms, smallest)) {
    for (const Term& t : terms) value += aligned(t, exponent, product_bits, RoundingMode::toward_zero);
  }
};

/// Adds c to a sum of products. Relative to the larger exponent, the sum is truncated to 2^-31 and c to 2^-24, both
/// downwards; the result is rounded to nearest.
std::uint64_t add_addend(const MatrixUnit& unit, const PartialSum& products, const Term& c, bool drops_small) {
  const int ec = c.kind == Kind::finite ? c.exponent : unit.accumulator.emin();
  const int e = std::max(products.exponent, ec);
  int128 total = floor_shift(products.value, std::max(products.exponent - e, -200) + sum_bits - product_bits);
  if (!drops_small || ec >= e - addend_bits - 1)
    total += aligned(c, e, addend_bits, RoundingMode::toward_negative) << (sum_bits - addend_bits);
  if (total == 0) return unit.accumulator.zero();
  return round_sum(unit.accumulator, RoundingMode::nearest_even, total, e - sum_bits).code;
}

/// A product of 2^128 or more is Inf.
void limit_products(std::span<Term> terms) {
  for (Term& t : terms)
    if (t.kind == Kind::finite && t.exponent - t.fraction_bits + bit_length(t.significand) > 128)
      t.kind = Kind::infinite;
}

std::uint64_t sum_then_addend_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  std::vector<Term> products = products_of(unit, x);
  limit_products(products);
  const Term addend = term(unit.accumulator, unit.sum, c);
  if (const Special special = special_of(products, addend); special.kind != Kind::finite)
    return special_result(unit, special);
  return add_addend(unit, PartialSum(products), addend, false);
}

std::uint64_t even_odd_then_addend_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const std::vector<Term> products = products_of(unit, x);
  const Term addend = term(unit.accumulator, unit.sum, c);
  if (const Special special = special_of(products, addend); special.kind != Kind::finite)
    return special_result(unit, special);
  std::vector<Term> parity[2];
  for (std::size_t k = 0; k < products.size(); ++k) parity[k % 2].push_back(products[k]);
  PartialSum even(parity[0]);
  const PartialSum odd(parity[1]);
  const int e = std::max(even.exponent, odd.exponent);
  even.value = floor_shift(even.value, std::max(even.exponent - e, -200)) +
               floor_shift(odd.value, std::max(odd.exponent - e, -200));
  even.exponent = e;
  return add_addend(unit, even, addend, true);
}

/// Products must have at most 48 bits and be multiples of 2^-scale.
std::string amd_refusal(const MatrixUnit& unit) {
  for (const FloatFormat& f : {unit.a, unit.b, unit.accumulator})
    if (f.precision() > 24 || f.emin() - f.fraction_bits < -scale / 2 || f.emax() > scale / 2)
      return "format " + format_name(f) + ": the rule " + std::string(unit.rule->name) +
             " takes up to 24 significant bits and 8 exponent bits";
  return {};
}

}  // namespace
}  // namespace halfulp::units

namespace halfulp::rules {
const Rule exact_sum{"exact-sum", "L products and c are added exactly and rounded once, to nearest; subnormals kept",
                     units::exact_sum_step, units::amd_refusal};
const Rule sum_then_addend{"sum-then-addend",
                           "L products, cut toward zero to 2^(emax - 24), are added; with E the larger exponent of "
                           "theirs and c's, their sum is cut to 2^(E - 31) and c to 2^(E - 24), downwards; added and "
                           "rounded to nearest. Products from 2^128 on are Inf, subnormals kept",
                           units::sum_then_addend_step, units::amd_refusal};
const Rule even_odd_then_addend{
    "even-odd-then-addend",
    "even and odd products, each cut toward zero to 2^(emax - 24) of their own, are added apart, then at the larger "
    "exponent, downwards; with E the larger of that and c's exponent, the sum is cut to 2^(E - 31) and c to 2^(E - "
    "24), downwards (dropped below 2^(E - 25)); to nearest",
    units::even_odd_then_addend_step, units::amd_refusal};
}  // namespace halfulp::rules
