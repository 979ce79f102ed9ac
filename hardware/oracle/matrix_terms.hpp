// The terms that matrix units add, by exact integers times powers of two of any length. Of emulation/ the description of a
// unit alone is taken (unit.hpp: formats, parameters, the name of its rule).
//
// Sources: Khattak & Mikaitis, arXiv 2512.07004; Xie et al., arXiv 2511.10909.
#pragma once

#include <halfulp/hardware/oracle/operations.hpp>

#include <halfulp/emulation/units/unit.hpp>

#include <optional>
#include <vector>

namespace oracle {

using halfulp::FusedSum, halfulp::MatrixUnit, halfulp::Products;

/// (-1)^sign * significand * 2^unit where finite; `exponent` is the one by which hardware aligns it.
struct Term {
  Class kind = Class::finite;
  bool sign = false;
  cpp_int significand = 0;
  int unit = 0;
  int exponent = 0;
  bool zero() const { return kind == Class::finite && significand == 0; }
};

inline Term term_of(const FloatFormat& f, std::uint64_t code, bool flush = false) {
  const Value v = decode(f, code, flush);
  return {v.kind, v.sign, v.significand, v.exponent, v.exponent + f.fraction_bits};
}
/// An operand as its word; 19 of the 32 bits of a TF32 operand count.
inline Term operand(const FloatFormat& f, std::uint64_t word, bool flush = false) {
  const FloatFormat tf32{8, 10, 127};
  return term_of(f, f == tf32 ? word / 8192 : word, flush);
}
inline Term times(const Term& a, const Term& b) {
  Term p{Class::finite, a.sign != b.sign, a.significand * b.significand, a.unit + b.unit, a.exponent + b.exponent};
  if (a.kind != Class::finite || b.kind != Class::finite)
    p.kind = a.kind == Class::nan || b.kind == Class::nan || a.zero() || b.zero() ? Class::nan : Class::infinite;
  return p;
}
/// The exponent of a number's leading bit.
inline int leading(const Term& t) { return floor_log2(Magnitude<cpp_int>{t.significand, 1, t.unit}); }

/// What terms give together that is no number: NaN or an infinity.
inline std::optional<std::uint64_t> special(const MatrixUnit& u, const std::vector<Term>& terms) {
  bool nan = false, infinite[2] = {false, false};
  for (const Term& t : terms) {
    nan = nan || t.kind == Class::nan;
    if (t.kind == Class::infinite) infinite[t.sign] = true;
  }
  if (nan || (infinite[0] && infinite[1])) return u.sum.nan;
  if (!infinite[0] && !infinite[1]) return std::nullopt;
  return signed_code(u.accumulator, max_code(u.accumulator) + 1, infinite[1]);
}

/// t in units of 2^unit, rounded to an integer.
inline cpp_int in_units(const Term& t, int unit, RoundingMode mode) {
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
inline int top_exponent(const std::vector<Term>& terms, int least) {
  for (const Term& t : terms)
    if (!t.zero()) least = std::max(least, t.exponent);
  return least;
}

/// The last step of every fused rule: terms cut to one quantum, added, rounded.
inline std::uint64_t fused(const MatrixUnit& u, const std::vector<Term>& terms) {
  if (const auto code = special(u, terms)) return *code;
  const FusedSum& s = u.sum;
  const int quantum = top_exponent(terms, s.least_exponent) - s.alignment_bits;
  cpp_int sum = 0;
  bool negative_zeros = true;
  for (const Term& t : terms) {
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

}  // namespace oracle
