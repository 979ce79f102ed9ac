// The rules by which matrix units add products, and their common parts: terms, their alignment, the order of products,
// the fused sum.
#pragma once

#include <halfulp/emulation/operand.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <algorithm>

namespace halfulp::rules {

extern const Rule fused;                 ///< FusedSum. NVIDIA, except FP64
extern const Rule scaled_groups;         ///< exact sums of 16 products, times scales, fused. NVIDIA MXFP4, NVFP4
extern const Rule fma_chain;             ///< d = fma(a, b, d), to nearest. AMD FP32 and FP64
extern const Rule fp64_chain;            ///< the same with NanRule::cuda_fp64. FP64 DMMA
extern const Rule product_chain;         ///< c + fma(.. fma(a1, b1, fma(a0, b0, +0))), to nearest. Hopper m8n8k4
extern const Rule halves_apart;          ///< two fused sums of f16 and an addition. Hopper mma.sync of FP8
extern const Rule exact_sum;             ///< all products and c, rounded once to nearest. AMD CDNA1
extern const Rule flushed_tree;          ///< products added pairwise, each rounded and flushed. AMD CDNA2
extern const Rule sum_then_addend;       ///< products fused, then with c. AMD CDNA3
extern const Rule even_odd_then_addend;  ///< the same of even and odd products apart. AMD CDNA3 FP8
extern const Rule even_odd_chains;       ///< two FMA chains, flushed, and c. Intel AMX TDPBF16PS
extern const Rule odd_even_pair;         ///< fma(even, fma(odd, c)), flushed. VDPBF16PS
extern const Rule to_odd_pair;           ///< products, their sum and c + sum to odd, flushed. Arm BFDOT

/// Every rule, and the rule of a name (nullptr if there is none).
std::span<const Rule* const> all();
const Rule* find(std::string_view name);

}  // namespace halfulp::rules

namespace halfulp::units {

// Terms of a fused sum: significand and exponent, not normalised, and their alignment to one quantum.

__extension__ using int128 = __int128;

/// (-1)^sign * significand * 2^(exponent - fraction_bits), or what `kind` says.
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
  Term p{Kind::finite, a.sign != b.sign, a.exponent + b.exponent, a.fraction_bits + b.fraction_bits,
         a.significand * b.significand};
  const auto either = [&](Kind kind) { return a.kind == kind || b.kind == kind; };
  if (either(Kind::nan) || (either(Kind::infinite) && either(Kind::zero))) p.kind = Kind::nan;
  else if (either(Kind::infinite)) p.kind = Kind::infinite;
  else if (either(Kind::zero)) p.kind = Kind::zero;
  return p;
}

/// The same value with its significand in [1, 2).
inline Term normalized_term(Term t) {
  if (t.kind == Kind::finite)
    t.exponent += bit_length(t.significand) - 1 - t.fraction_bits, t.fraction_bits = bit_length(t.significand) - 1;
  return t;
}

/// The special value that a sum of terms has: NaN (also for +Inf and -Inf), an infinity, or none.
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
inline Rounded round_sum(const FloatFormat& f, RoundingMode mode, int128 sum, int exponent,
                         bool flush_outputs = false) {
  Rounding r;
  r.mode = mode;
  r.flush_outputs = flush_outputs;
  const bool sign = sum < 0;
  const Rounded d = round_pack(f, r, Exact<uint128>{sign, exponent, static_cast<uint128>(sign ? -sum : sum)});
  return (d.flags & flag::overflow) && f.has_infinity() ? Rounded{f.infinity(sign), d.flags} : d;
}

/// Products that MXFP4 and NVFP4 add before they are scaled.
inline constexpr int group_length = 16;

/// Which product of a step is the i-th of its s-th sum. A step has as many sums as unit.sum.length goes into it.
inline std::size_t product_of(const MatrixUnit& unit, std::size_t sums, std::size_t s, std::size_t i) {
  if (unit.rule == &rules::halves_apart) return i / 2 * 4 + 2 * s + i % 2;  // k mod 4 in {0, 1}, then {2, 3}
  const std::size_t j = unit.sum.descending ? sums - 1 - s : s;
  return unit.sum.grouping == Grouping::strided ? i * sums + j : j * static_cast<std::size_t>(unit.sum.length) + i;
}

/// Replaces any NaN by the unit's own.
inline std::uint64_t with_nan(const MatrixUnit& unit, std::uint64_t d) {
  return unit.accumulator.is_nan(d) ? unit.sum.nan : d;
}

/// The sum of terms by unit.sum, as a word of the accumulator; NaN or Inf if a term is.
std::uint64_t fused_sum(const MatrixUnit& unit, std::span<const Term> terms);

/// The word of a NaN or an infinity. Precondition: `special` is one of these.
std::uint64_t special_result(const MatrixUnit& unit, const Special& special);

}  // namespace halfulp::units
