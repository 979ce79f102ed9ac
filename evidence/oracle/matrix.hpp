// The terms that matrix units add, by exact integers times powers of two of any length. From emulation/ it takes
// only the description of a unit (unit.hpp: formats, parameters, the name of its rule).
//
// Sources: Khattak & Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909.
#pragma once

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/evidence/oracle/operations.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace oracle {

using halfulp::FusedSum, halfulp::MatrixUnit, halfulp::DotOperands;

/// (-1)^sign * significand * 2^unit where finite; `exponent` is the one by which hardware aligns it.
struct OracleTerm {
  Class kind = Class::finite;
  bool sign = false;
  cpp_int significand = 0;
  int unit = 0;
  int exponent = 0;
  bool zero() const { return kind == Class::finite && significand == 0; }
};

inline OracleTerm term_of(const FloatFormat& f, std::uint64_t code, bool flush = false) {
  const Value v = decode(f, code, flush);
  return {v.kind, v.sign, v.significand, v.exponent, v.exponent + f.fraction_bits};
}
/// An operand as its word; 19 of the 32 bits of a TF32 operand count.
inline OracleTerm operand(const FloatFormat& f, std::uint64_t word, bool flush = false) {
  const FloatFormat tf32{8, 10, 127};
  return term_of(f, f == tf32 ? word / 8192 : word, flush);
}
inline OracleTerm times(const OracleTerm& a, const OracleTerm& b) {
  OracleTerm p{Class::finite, a.sign != b.sign, a.significand * b.significand, a.unit + b.unit,
               a.exponent + b.exponent};
  if (a.kind != Class::finite || b.kind != Class::finite)
    p.kind = a.kind == Class::nan || b.kind == Class::nan || a.zero() || b.zero() ? Class::nan : Class::infinite;
  return p;
}
/// The exponent of a number's leading bit.
inline int leading(const OracleTerm& t) { return floor_log2(Magnitude<cpp_int>{t.significand, 1, t.unit}); }

/// What terms give together if that is not a number: NaN or an infinity.
inline std::optional<std::uint64_t> special(const MatrixUnit& u, const std::vector<OracleTerm>& terms) {
  bool nan = false, infinite[2] = {false, false};
  for (const OracleTerm& t : terms) {
    nan = nan || t.kind == Class::nan;
    if (t.kind == Class::infinite) infinite[t.sign] = true;
  }
  if (nan || (infinite[0] && infinite[1])) return u.sum.nan;
  if (!infinite[0] && !infinite[1]) return std::nullopt;
  return signed_code(u.accumulator, max_code(u.accumulator) + 1, infinite[1]);
}

/// t in units of 2^unit, rounded to an integer.
inline cpp_int in_units(const OracleTerm& t, int unit, RoundingMode mode) {
  if (t.significand == 0) return 0;
  Rounding r;
  r.mode = mode;
  cpp_int below;
  const Bracket b = bracket(Magnitude<cpp_int>{t.significand, 1, t.unit}, unit, below);
  if (goes_away(r, t.sign, b, (below & 1) != 0, 0)) ++below;
  return t.sign ? cpp_int(-below) : below;
}

/// sum * 2^unit, not zero, in a format.
inline Rounded rounded(const FloatFormat& f, RoundingMode mode, const cpp_int& sum, int unit, bool flush = false) {
  Rounding r;
  r.mode = mode;
  r.flush_outputs = flush;
  return settle(f, r, locate(f, sum < 0, Magnitude<cpp_int>{abs(sum), 1, unit}), 0);
}

/// emax: of the terms that are not zero, or `least`.
inline int top_exponent(const std::vector<OracleTerm>& terms, int least) {
  for (const OracleTerm& t : terms)
    if (!t.zero()) least = std::max(least, t.exponent);
  return least;
}

/// The last step of every fused rule: terms cut to one quantum, added, rounded.
inline std::uint64_t fused(const MatrixUnit& u, const std::vector<OracleTerm>& terms) {
  if (const auto code = special(u, terms)) return *code;
  const FusedSum& s = u.sum;
  const int quantum = top_exponent(terms, s.least_exponent) - s.alignment_bits;
  cpp_int sum = 0;
  bool negative_zeros = true;
  for (const OracleTerm& t : terms) {
    sum += in_units(t, quantum, s.alignment);
    negative_zeros = negative_zeros && t.zero() && t.sign;
  }
  const bool keeps = s.zero == halfulp::ZeroSign::ieee;
  if (sum == 0) return zero_code(u.accumulator, keeps && negative_zeros);
  const Rounded d = rounded(s.kept, s.rounding, sum, quantum, s.flush_outputs);
  const bool zero = (d.code & bits(magnitude_bits(s.kept))) == 0 && classify(s.kept, d.code) == Class::finite;
  if (zero) return zero_code(u.accumulator, keeps && sum < 0);
  if (d.flags & flag::overflow) return signed_code(u.accumulator, max_code(u.accumulator) + 1, sum < 0);
  return d.code << (u.accumulator.fraction_bits - s.kept.fraction_bits);
}

// The oracle's matrix units: every rule from its definition, on exact terms and on the oracle's IEEE operations.
//
// Sources: Khattak & Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909; ptxas 13.0 for Hopper's FP8 and m8n8k4;
// Intel SDM, vol. 2; Arm ARM, BFDotAdd.

/// One chunk of operands: words from `first` on, and their scales.
struct OperandChunk {
  const MatrixUnit& u;
  std::vector<std::uint64_t> a, b, scale_a, scale_b;

  OracleTerm product(std::size_t k) const {
    const bool flush = u.sum.flush_inputs;
    OracleTerm p = times(operand(u.a, a[k], flush), operand(u.b, b[k], flush));
    if (u.sum.normalized_products && u.rule->name == "fused" && p.kind == Class::finite && !p.zero())
      p.exponent = leading(p);
    if (u.scale_block == 0) return p;
    const auto block = k / static_cast<std::size_t>(u.scale_block);
    const OracleTerm x = term_of(u.scale, scale_a[block]), y = term_of(u.scale, scale_b[block]);
    if (x.kind == Class::nan || y.kind == Class::nan) p.kind = Class::nan;
    p.unit += x.unit + y.unit;
    p.exponent += x.exponent + y.exponent;
    return p;
  }
  OracleTerm addend(std::uint64_t c) const {
    OracleTerm t = term_of(u.accumulator, c, u.sum.flush_inputs);
    if (u.sum.normalized_products && u.rule->name == "fused" && t.kind == Class::finite && !t.zero())
      t.exponent = leading(t);
    return t;
  }
  std::vector<OracleTerm> products() const {
    std::vector<OracleTerm> terms;
    for (std::size_t k = 0; k < a.size(); ++k) terms.push_back(product(k));
    return terms;
  }
};

inline std::uint64_t fused_rule(const OperandChunk& x, std::uint64_t c) {
  const auto length = static_cast<std::size_t>(x.u.sum.length), sums = x.a.size() / length;
  for (std::size_t s = 0; s < sums; ++s) {
    const std::size_t j = x.u.sum.descending ? sums - 1 - s : s;
    std::vector<OracleTerm> terms{x.addend(c)};
    for (std::size_t k = 0; k < x.a.size(); ++k)
      if ((x.u.sum.grouping == halfulp::Grouping::strided ? k % sums : k / length) == j) terms.push_back(x.product(k));
    c = fused(x.u, terms);
  }
  return c;
}

inline std::uint64_t scaled_groups_rule(const OperandChunk& x, std::uint64_t c) {
  std::vector<OracleTerm> terms{x.addend(c)};
  for (std::size_t g = 0; g < x.a.size() / 16; ++g) {
    cpp_int quarters = 0;  // products of e2m1 are multiples of 1/4
    for (std::size_t k = 16 * g; k < 16 * g + 16; ++k) {
      const OracleTerm p = times(operand(x.u.a, x.a[k]), operand(x.u.b, x.b[k]));
      const cpp_int n = shifted(p.significand, p.unit + 2);
      quarters += p.sign ? cpp_int(-n) : n;
    }
    const auto block = 16 * g / static_cast<std::size_t>(x.u.scale_block);
    const std::uint64_t magnitude = bits(magnitude_bits(x.u.scale));
    const bool flush = x.u.sum.flush_inputs;
    OracleTerm t = times(term_of(x.u.scale, x.scale_a[block] & magnitude, flush),
                         term_of(x.u.scale, x.scale_b[block] & magnitude, flush));
    t.sign = quarters < 0;
    t.significand *= abs(quarters);
    t.unit -= 2;
    terms.push_back(t);
  }
  return fused(x.u, terms);
}

/// An exact conversion; of a NaN, by a rule.
inline std::uint64_t widened(const FloatFormat& from, const FloatFormat& to, std::uint64_t word, halfulp::NanRule nan) {
  const FloatFormat tf32{8, 10, 127};
  Rounding r;
  r.nan = nan;
  return from == to ? word : convert<cpp_int>(from, to, r, from == tf32 ? word / 8192 : word).code;
}

inline std::uint64_t halves_apart_rule(const OperandChunk& x, std::uint64_t c) {
  const FloatFormat half{5, 10, 15};
  std::uint64_t d = 0;
  for (const bool second : {false, true}) {
    std::vector<OracleTerm> terms{term_of(x.u.accumulator, d, x.u.sum.flush_inputs)};
    for (std::size_t k = 0; k < x.a.size(); ++k) {
      if ((k % 4 >= 2) != second) continue;
      const auto in_half = [&](const FloatFormat& f, std::uint64_t code) {
        const Value v = decode(f, code, x.u.sum.flush_inputs);
        return v.zero() ? term_of(half, zero_code(half, v.sign))
                        : term_of(half, widened(f, half, code, halfulp::NanRule::canonical));
      };
      terms.push_back(times(in_half(x.u.a, x.a[k]), in_half(x.u.b, x.b[k])));
    }
    d = fused(x.u, terms);
  }
  const std::uint64_t total = finish(x.u.accumulator, {}, sum<cpp_int>(x.u.accumulator, false, c, d, false)).code;
  return is_nan(x.u.accumulator, total) ? x.u.sum.nan : total;
}

/// IEEE operations in the accumulator's format.
struct Ieee {
  const OperandChunk& x;
  Rounding r = {};
  const FloatFormat& f = x.u.accumulator;
  std::uint64_t a(std::size_t k) const { return widened(x.u.a, f, x.a[k], r.nan); }
  std::uint64_t b(std::size_t k) const { return widened(x.u.b, f, x.b[k], r.nan); }
  std::uint64_t mul(std::uint64_t p, std::uint64_t q) const {
    return finish(f, r, oracle::mul<cpp_int>(f, r.flush_inputs, p, q)).code;
  }
  std::uint64_t add(std::uint64_t p, std::uint64_t q) const {
    return finish(f, r, oracle::sum<cpp_int>(f, r.flush_inputs, p, q, false)).code;
  }
  std::uint64_t fma(std::size_t k, std::uint64_t c) const {
    return finish(f, r, oracle::fma<cpp_int>(f, r.flush_inputs, a(k), b(k), c)).code;
  }
  /// A NaN as the unit's.
  std::uint64_t own(std::uint64_t d) const { return is_nan(f, d) ? x.u.sum.nan : d; }
};
inline Rounding by_fp64_nans() {
  Rounding r;
  r.nan = halfulp::NanRule::cuda_fp64;
  return r;
}
inline Rounding flushing(RoundingMode mode, halfulp::NanRule nan) {
  Rounding r;
  r.mode = mode;
  r.flush_inputs = r.flush_outputs = true;
  r.nan = nan;
  return r;
}

inline std::uint64_t product_chain_rule(const OperandChunk& x, std::uint64_t c) {
  const Ieee ieee{x};
  std::uint64_t t = 0;  // +0 first: if all products are -0 the sum is +0
  for (std::size_t k = 0; k < x.a.size(); ++k) t = ieee.fma(k, t);
  return ieee.own(ieee.add(c, t));
}
inline std::uint64_t even_odd_chains_rule(const OperandChunk& x, std::uint64_t c) {
  const Ieee ieee{x, flushing(RoundingMode::nearest_even, halfulp::NanRule::propagate)};
  std::uint64_t chain[2] = {0, 0};
  for (std::size_t k = 0; k < x.a.size(); ++k) chain[k % 2] = ieee.fma(k, chain[k % 2]);
  return ieee.add(c, ieee.add(chain[0], chain[1]));
}
inline std::uint64_t odd_even_pair_rule(const OperandChunk& x, std::uint64_t c) {
  const Ieee ieee{x, flushing(RoundingMode::nearest_even, halfulp::NanRule::propagate)};
  return ieee.fma(0, ieee.fma(1, c));
}
inline std::uint64_t to_odd_pair_rule(const OperandChunk& x, std::uint64_t c) {
  const Ieee ieee{x, flushing(RoundingMode::to_odd, halfulp::NanRule::canonical)};
  const std::uint64_t first = ieee.mul(ieee.a(0), ieee.b(0)), second = ieee.mul(ieee.a(1), ieee.b(1));
  return ieee.own(ieee.add(c, ieee.add(first, second)));
}
inline std::uint64_t flushed_tree_rule(const OperandChunk& x, std::uint64_t c) {
  const Ieee ieee{x};
  const auto tiny = [](const FloatFormat& f, std::uint64_t code) {
    const std::uint64_t magnitude = code & bits(magnitude_bits(f));
    return magnitude != 0 && magnitude >> f.fraction_bits == 0;
  };
  const FloatFormat tf32{8, 10, 127};
  const auto input = [&](const FloatFormat& f, std::uint64_t word) {
    return tiny(f, f == tf32 ? word / 8192 : word) ? 0 : word;
  };
  const auto result = [&](std::uint64_t d) { return tiny(ieee.f, d) ? d & sign_bit(ieee.f) : d; };
  std::vector<std::uint64_t> level;
  for (std::size_t k = 0; k < x.a.size(); ++k)
    level.push_back(result(
        ieee.mul(widened(x.u.a, ieee.f, input(x.u.a, x.a[k]), {}), widened(x.u.b, ieee.f, input(x.u.b, x.b[k]), {}))));
  while (level.size() > 1) {
    std::vector<std::uint64_t> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(result(ieee.add(level[i], level[i + 1])));
    level = std::move(next);
  }
  return ieee.own(result(ieee.add(input(ieee.f, c), level[0])));
}

/// The exact sum of terms, in units of the smallest one.
struct Sum {
  cpp_int n = 0;
  int unit = 0;
};
inline Sum exact(const std::vector<OracleTerm>& terms) {
  Sum s;
  for (const OracleTerm& t : terms) s.unit = std::min(s.unit, t.unit);
  for (const OracleTerm& t : terms) s.n += (t.sign ? -1 : 1) * shifted(t.significand, t.unit - s.unit);
  return s;
}

inline std::uint64_t exact_sum_rule(const OperandChunk& x, std::uint64_t c) {
  std::vector<OracleTerm> terms = x.products();
  terms.push_back(x.addend(c));
  if (const auto code = special(x.u, terms)) return *code;
  const Sum s = exact(terms);
  return s.n == 0 ? 0 : rounded(x.u.accumulator, RoundingMode::nearest_even, s.n, s.unit).code;
}

/// The greatest multiple of 2^unit that a sum does not fall below.
inline Sum floored(const Sum& s, int unit) {
  if (s.n == 0 || s.unit >= unit) return s;
  OracleTerm t{Class::finite, s.n < 0, abs(s.n), s.unit, 0};
  return {in_units(t, unit, RoundingMode::toward_negative), unit};
}
inline Sum plus(const Sum& p, const Sum& q) {
  const int unit = std::min(p.unit, q.unit);
  return {shifted(p.n, p.unit - unit) + shifted(q.n, q.unit - unit), unit};
}

/// CDNA3: products are cut to 2^-24 of the largest (even ones and odd ones apart where `parities` is 2) and added; the
/// sum is cut downwards to 2^-31 of the larger of its exponent and C's, C to 2^-24 of it, or dropped below 2^-25.
inline std::uint64_t then_addend_rule(const OperandChunk& x, std::uint64_t c, bool by_parity) {
  std::vector<OracleTerm> terms = x.products(), parts[2];
  if (!by_parity)
    for (OracleTerm& t : terms)
      if (t.kind == Class::finite && !t.zero() && leading(t) >= 128) t.kind = Class::infinite;
  const OracleTerm addend = x.addend(c);
  terms.push_back(addend);
  if (const auto code = special(x.u, terms)) return *code;
  terms.pop_back();
  for (std::size_t k = 0; k < terms.size(); ++k) parts[by_parity ? k % 2 : 0].push_back(terms[k]);

  constexpr int none = -100'000;
  const int e_products = top_exponent(terms, none);
  Sum products;
  for (const std::vector<OracleTerm>& part : parts) {
    const int quantum = top_exponent(part, none) - 24;
    Sum sum{0, quantum};
    for (const OracleTerm& t : part) sum.n += in_units(t, quantum, RoundingMode::toward_zero);
    if (sum.n == 0) continue;
    if (by_parity) sum = floored(sum, e_products - 24);
    products = products.n == 0 ? sum : plus(products, sum);
  }
  const int e_addend = addend.zero() ? emin(x.u.accumulator) : addend.exponent, e = std::max(e_products, e_addend);
  Sum total = floored(products, e - 31);
  if (!addend.zero() && (!by_parity || e_addend >= e - 25))
    total = plus(total, floored({(addend.sign ? -1 : 1) * addend.significand, addend.unit}, e - 24));
  return total.n == 0 ? 0 : rounded(x.u.accumulator, RoundingMode::nearest_even, total.n, total.unit).code;
}

/// The products that a rule takes at a time.
inline int chunk_length(const MatrixUnit& u) {
  if (u.rule->name == "halves-apart") return 2 * u.sum.length;
  if (u.rule->name == "product-chain") return u.k;  // C is added once an instruction
  const bool reordered = u.sum.grouping == halfulp::Grouping::strided || u.sum.descending;
  return u.rule->name == "fused" && reordered ? u.k : u.sum.length;
}

inline std::uint64_t chunk_result(const OperandChunk& x, std::uint64_t c) {
  const auto name = x.u.rule->name;
  if (name == "fused") return fused_rule(x, c);
  if (name == "scaled-groups") return scaled_groups_rule(x, c);
  if (name == "halves-apart") return halves_apart_rule(x, c);
  if (name == "fma-chain") return Ieee{x}.own(Ieee{x}.fma(0, c));
  if (name == "fp64-chain") return Ieee{x, by_fp64_nans()}.fma(0, c);
  if (name == "product-chain") return product_chain_rule(x, c);
  if (name == "exact-sum") return exact_sum_rule(x, c);
  if (name == "flushed-tree") return flushed_tree_rule(x, c);
  if (name == "sum-then-addend") return then_addend_rule(x, c, false);
  if (name == "even-odd-then-addend") return then_addend_rule(x, c, true);
  if (name == "even-odd-chains") return even_odd_chains_rule(x, c);
  if (name == "odd-even-pair") return odd_even_pair_rule(x, c);
  if (name == "to-odd-pair") return to_odd_pair_rule(x, c);
  throw std::logic_error("oracle: no rule " + std::string(name));
}

/// One output. Operands as halfulp::mma takes them.
inline std::uint64_t mma(const MatrixUnit& u, const DotOperands& x, std::uint64_t c) {
  const auto depth = static_cast<std::size_t>(chunk_length(u)), per_scale = static_cast<std::size_t>(u.scale_block);
  const auto k_of_one = static_cast<std::size_t>(u.k), whole = (x.a.size() + k_of_one - 1) / k_of_one * k_of_one;
  for (std::size_t first = 0; first < whole; first += depth) {
    OperandChunk chunk{u, {}, {}, {}, {}};
    for (std::size_t k = first; k < first + depth; ++k) {
      chunk.a.push_back(k < x.a.size() ? x.a[k] : 0);
      chunk.b.push_back(k < x.b.size() ? x.b[k] : 0);
      if (per_scale == 0 || (k != first && k % per_scale != 0)) continue;
      chunk.scale_a.push_back(k < x.a.size() ? x.scale_a[k / per_scale] : 0);
      chunk.scale_b.push_back(k < x.a.size() ? x.scale_b[k / per_scale] : 0);
    }
    c = chunk_result(chunk, c);
  }
  return c;
}

}  // namespace oracle
