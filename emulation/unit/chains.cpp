// Rules made of IEEE operations in a stated order: chains of fused multiply-adds, trees, roundings to odd.
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/known.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/rules.hpp>

namespace halfulp::units {
namespace {

/// Operations in the accumulator's format; operands are widened to it, exactly.
struct Chain {
  const MatrixUnit& unit;
  const DotOperands& x;
  Rounding rounding;

  std::uint64_t widen(const FloatFormat& from, std::uint64_t word) const {
    Rounding exact;
    exact.nan = rounding.nan;
    return from == unit.accumulator ? word : convert(from, unit.accumulator, exact, word_code(from, word)).code;
  }
  std::uint64_t a(std::size_t k) const { return widen(unit.a, x.a[k]); }
  std::uint64_t b(std::size_t k) const { return widen(unit.b, x.b[k]); }
  std::uint64_t mul(std::size_t k) const {
    return evaluate<Operation::mul>(unit.accumulator, rounding, a(k), b(k)).code;
  }
  std::uint64_t fma(std::size_t k, std::uint64_t c) const {
    return evaluate<Operation::fma>(unit.accumulator, rounding, a(k), b(k), c).code;
  }
  std::uint64_t add(std::uint64_t p, std::uint64_t q) const {
    return evaluate<Operation::add>(unit.accumulator, rounding, p, q).code;
  }
};

std::uint64_t fma_chain_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  return with_nan(unit, Chain{unit, x, {}}.fma(0, c));
}

std::uint64_t fp64_chain_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  Rounding r;
  r.nan = NanRule::cuda_fp64;
  return Chain{unit, x, r}.fma(0, c);
}

std::uint64_t product_chain_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const Chain chain{unit, x, {}};
  std::uint64_t t = unit.accumulator.zero();
  for (std::size_t k = 0; k < x.a.size(); ++k) t = chain.fma(k, t);
  return with_nan(unit, chain.add(c, t));
}

Rounding flushing(NanRule nan = NanRule::propagate) {
  Rounding r;
  r.flush_inputs = r.flush_outputs = true;
  r.nan = nan;
  return r;
}

std::uint64_t even_odd_chains_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const Chain chain{unit, x, flushing()};
  std::uint64_t even = 0, odd = 0;
  for (std::size_t k = 0; k < x.a.size(); k += 2) even = chain.fma(k, even), odd = chain.fma(k + 1, odd);
  return chain.add(c, chain.add(even, odd));
}

std::uint64_t odd_even_pair_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const Chain chain{unit, x, flushing()};
  return chain.fma(0, chain.fma(1, c));
}

std::uint64_t to_odd_pair_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  Rounding r = flushing(NanRule::canonical);
  r.mode = RoundingMode::to_odd;
  const Chain chain{unit, x, r};
  return with_nan(unit, chain.add(c, chain.add(chain.mul(0), chain.mul(1))));
}

/// CDNA2 flushes operands to +0 and results, once rounded, to the zero of their sign.
std::uint64_t flushed_tree_step(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const FloatFormat& f = unit.accumulator;
  const Chain chain{unit, x, {}};
  const auto flush = [](const FloatFormat& g, std::uint64_t code, bool keep_sign) {
    return g.is_subnormal(code) ? g.zero(keep_sign && g.sign(code)) : code;
  };
  const auto operand = [&](const FloatFormat& g, std::uint64_t word) {
    return chain.widen(g, code_word(g, flush(g, word_code(g, word), false)));
  };
  const auto product = [&](std::size_t k) {
    const std::uint64_t a = operand(unit.a, x.a[k]), b = operand(unit.b, x.b[k]);
    return flush(f, evaluate<Operation::mul>(f, {}, a, b).code, true);
  };
  const auto sum = [&](std::uint64_t p, std::uint64_t q) { return flush(f, chain.add(p, q), true); };
  const auto tree = [&](const auto& self, std::size_t begin, std::size_t count) -> std::uint64_t {
    return count == 1 ? product(begin) : sum(self(self, begin, count / 2), self(self, begin + count / 2, count / 2));
  };
  return with_nan(unit, sum(flush(f, c, false), tree(tree, 0, x.a.size())));
}

/// Operands are widened to the accumulator's format, and a step takes so many products.
std::string chain_refusal(const MatrixUnit& unit, bool length_fits, std::string_view lengths) {
  for (const FloatFormat& f : {unit.a, unit.b})
    if (!holds(unit.accumulator, f))
      return "accumulator " + format_name(unit.accumulator) + " does not hold every value of " + format_name(f);
  if (!length_fits)
    return "length: the rule " + std::string(unit.rule->name) + " takes " + std::string(lengths) + ", not " +
           std::to_string(unit.sum.length);
  return {};
}
std::string whole_length(const MatrixUnit& unit) {
  return chain_refusal(unit, unit.sum.length == unit.k, "all products of an instruction");
}
std::string length_one(const MatrixUnit& unit) { return chain_refusal(unit, unit.sum.length == 1, "1"); }
/// NaNs of operands keep their payload: the unit has no NaN of its own.
std::string payload_refusal(const MatrixUnit& unit) {
  if (unit.sum.nan == unit.accumulator.canonical_nan()) return {};
  return "nan: the rule " + std::string(unit.rule->name) +
         " passes on the NaNs of operands; accepted: the canonical NaN " +
         print_code(unit.accumulator, unit.accumulator.canonical_nan()) + " alone";
}
std::string length_one_of_payloads(const MatrixUnit& unit) {
  if (std::string why = length_one(unit); !why.empty()) return why;
  return payload_refusal(unit);
}
std::string x86_pair(const MatrixUnit& unit) {
  if (std::string why = payload_refusal(unit); !why.empty()) return why;
  return chain_refusal(unit, unit.sum.length == 2, "2");
}
std::string length_two(const MatrixUnit& unit) { return chain_refusal(unit, unit.sum.length == 2, "2"); }
std::string even_length(const MatrixUnit& unit) {
  if (std::string why = payload_refusal(unit); !why.empty()) return why;
  return chain_refusal(unit, unit.sum.length % 2 == 0, "an even number");
}
std::string tree_length(const MatrixUnit& unit) {
  return chain_refusal(unit, (unit.sum.length & (unit.sum.length - 1)) == 0, "a power of two");
}

}  // namespace
}  // namespace halfulp::units

namespace halfulp::rules {
const Rule fma_chain{"fma-chain", "d = fma(a, b, d) along k, to nearest", units::fma_chain_step, units::length_one};
const Rule fp64_chain{"fp64-chain",
                      "d = fma(a, b, d) along k, to nearest; a NaN operand is passed on, b before d before a",
                      units::fp64_chain_step, units::length_one_of_payloads};
const Rule product_chain{"product-chain", "c + fma(a3, b3, fma(a2, b2, fma(a1, b1, fma(a0, b0, +0)))), to nearest",
                         units::product_chain_step, units::whole_length};
const Rule even_odd_chains{"even-odd-chains",
                           "FMA chains of even and odd k from 0, their sum, then c + sum; each to nearest, subnormal "
                           "operands and tiny results are zeros of their sign",
                           units::even_odd_chains_step, units::even_length};
const Rule odd_even_pair{
    "odd-even-pair",
    "fma(a0, b0, fma(a1, b1, c)); each to nearest, subnormal operands and tiny results are zeros of their sign",
    units::odd_even_pair_step, units::x86_pair};
const Rule to_odd_pair{"to-odd-pair",
                       "two products, their sum and its sum with c, each to odd, subnormal operands and tiny results "
                       "are zeros of their sign",
                       units::to_odd_pair_step, units::length_two};
const Rule flushed_tree{"flushed-tree",
                        "operands flushed to +0; products, a binary tree of their L-fold sum, then c + sum: each "
                        "rounded to nearest and, if subnormal, flushed to the zero of its sign",
                        units::flushed_tree_step, units::tree_length};
}  // namespace halfulp::rules
