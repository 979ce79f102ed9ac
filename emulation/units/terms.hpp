// Terms of a fused sum: significand and exponent, not normalised, and their alignment to one quantum.
#pragma once

#include <halfulp/emulation/operand.hpp>
#include <halfulp/emulation/units/unit.hpp>

#include <algorithm>

namespace halfulp::units {

__extension__ using int128 = __int128;

/// (-1)^sign * significand * 2^(exponent - fraction_bits); the kind says whether it is a number at all.
struct Term {
  Kind kind = Kind::zero;
  bool sign = false;
  int exponent = 0;
  int fraction_bits = 0;
  uint128 significand = 0;
};

constexpr Rounding inputs_of(const FusedSum& sum) {
  Rounding r;
  r.flush_inputs = sum.flush_inputs;
  return r;
}

/// A code word as a term. A subnormal has the exponent of the smallest normal number.
inline Term term(const FloatFormat& f, const FusedSum& sum, std::uint64_t code) {
  const Operand x = unpack(f, inputs_of(sum), code);
  return {x.kind, x.sign, x.exponent + f.fraction_bits, f.fraction_bits, x.significand};
}

/// The exact product; Inf * 0 is NaN.
inline Term product(const Term& a, const Term& b) {
  Term p{Kind::finite, a.sign != b.sign, a.exponent + b.exponent, a.fraction_bits + b.fraction_bits, a.significand * b.significand};
  const auto either = [&](Kind kind) { return a.kind == kind || b.kind == kind; };
  if (either(Kind::nan) || (either(Kind::infinite) && either(Kind::zero))) p.kind = Kind::nan;
  else if (either(Kind::infinite)) p.kind = Kind::infinite;
  else if (either(Kind::zero)) p.kind = Kind::zero;
  return p;
}

/// The same value with its significand in [1, 2).
inline Term normalized_term(Term t) {
  if (t.kind == Kind::finite) t.exponent += bit_length(t.significand) - 1 - t.fraction_bits, t.fraction_bits = bit_length(t.significand) - 1;
  return t;
}

/// What stands against a number among terms: a NaN (or +Inf with -Inf), an infinity, or nothing.
struct Special {
  Kind kind = Kind::finite;
  bool sign = false;
  void meet(const Term& t) {
    if (t.kind == Kind::nan) kind = Kind::nan;
    if (t.kind != Kind::infinite || kind == Kind::nan) return;
    if (kind == Kind::infinite && sign != t.sign) kind = Kind::nan;
    else kind = Kind::infinite, sign = t.sign;
  }
};

/// The largest exponent of the non-zero terms, at least `least`.
inline int largest_exponent(std::span<const Term> terms, int least) {
  for (const Term& t : terms)
    if (t.kind == Kind::finite) least = std::max(least, t.exponent);
  return least;
}

/// t / 2^(emax - bits) as an integer, rounded in a mode. Precondition: bits <= 60 and t.exponent <= emax.
inline int128 aligned(const Term& t, int emax, int bits, RoundingMode mode) {
  if (t.kind != Kind::finite) return 0;
  const int tail = std::min(t.fraction_bits + emax - t.exponent - bits, 4096);
  Rounding r;
  r.mode = mode;
  const auto magnitude = static_cast<int128>(round_integer<uint128>(r, t.sign, t.significand, tail, 0).value);
  return t.sign ? -magnitude : magnitude;
}

/// sum * 2^exponent, not zero, rounded to a format. Overflow gives Inf (where the format has one) whatever the mode.
inline Rounded round_sum(const FloatFormat& f, RoundingMode mode, int128 sum, int exponent, bool flush_outputs = false) {
  Rounding r;
  r.mode = mode;
  r.flush_outputs = flush_outputs;
  const bool sign = sum < 0;
  const Rounded d = round_pack(f, r, Exact<uint128>{sign, exponent, static_cast<uint128>(sign ? -sum : sum)});
  return (d.flags & flag::overflow) && f.has_infinity() ? Rounded{f.infinity(sign), d.flags} : d;
}

}  // namespace halfulp::units
