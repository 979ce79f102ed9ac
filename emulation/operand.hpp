// What operations share: unpacked operands, and the results that are not numbers.
#pragma once

#include <halfulp/emulation/round_pack.hpp>

#include <initializer_list>

namespace halfulp {

enum class Kind : std::uint8_t { zero, finite, infinite, nan };

/// A code word taken apart: (-1)^sign * significand * 2^exponent where finite.
struct Operand {
  Kind kind;
  bool sign;
  int exponent;
  std::uint64_t significand;
};

constexpr Operand unpack(const FloatFormat& f, const Rounding& rounding, std::uint64_t code) {
  if (!f.is_finite(code)) return {f.is_nan(code) ? Kind::nan : Kind::infinite, f.sign(code), 0, 0};
  if (f.is_zero(code) || (rounding.flush_inputs && f.is_subnormal(code)))
    return {Kind::zero, f.sign(code) && f.has_negative_zero(), 0, 0};
  return {Kind::finite, f.sign(code), f.exponent(code), f.significand(code)};
}

/// The same value with its leading bit at width - 3: room for a carry above, for alignment below.
template <class U>
constexpr Exact<U> normalized(bool sign, int exponent, U significand) {
  const int shift = width_of<U> - 2 - bit_length(significand);
  return {sign, exponent - shift, significand << shift};
}
template <class U>
constexpr Exact<U> normalized(const Operand& x) {
  return normalized<U>(x.sign, x.exponent, U{x.significand});
}

// --- NaN ------------------------------------------------------------------------------------

/// A NaN that no operand brought: 0/0, Inf - Inf, sqrt(-1).
constexpr std::uint64_t fresh_nan(const FloatFormat& f, const Rounding& rounding) {
  if (f.nonfinite != NonFinite::ieee) return f.canonical_nan();
  switch (rounding.nan) {
    case NanRule::canonical: break;
    case NanRule::cuda: return f.magnitude_mask();
    case NanRule::propagate:
    case NanRule::cuda_fp64:
    case NanRule::keep: return f.with_sign(f.canonical_nan(), true);
  }
  return f.canonical_nan();
}

/// The result of an invalid operation; a format without NaN gives its largest value, as CUDA's conversions do.
constexpr Rounded invalid(const FloatFormat& f, const Rounding& rounding) {
  return {fresh_nan(f, rounding), flag::invalid};
}

/// The result of an operation of which some operand is a NaN; a signalling one raises invalid.
constexpr Rounded nan_result(const FloatFormat& f, const Rounding& rounding,
                             std::initializer_list<std::uint64_t> codes) {
  Rounded result{0, 0};
  const std::uint64_t* from = nullptr;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t turn = rounding.nan == NanRule::cuda_fp64 ? i + 1 : i;
    const std::uint64_t* code = codes.begin() + turn % codes.size();
    if (!f.is_nan(*code)) continue;
    if (f.is_signaling(*code)) result.flags |= flag::invalid;
    if (from == nullptr) from = code;
  }
  if (from == nullptr) return result;
  if (!keeps_payload(rounding.nan)) result.code = fresh_nan(f, rounding);
  else result.code = *from | (rounding.nan == NanRule::keep ? 0 : f.quiet_bit());
  return result;
}

// --- infinity -------------------------------------------------------------------------------

/// An exactly infinite result (Inf + 1, 1/0). Formats without Inf give NaN, or +-max if they have none or saturate.
constexpr Rounded infinite(const FloatFormat& f, const Rounding& rounding, bool sign, Flags flags = 0) {
  if (f.has_infinity()) return {f.infinity(sign), flags};
  if (f.has_nan() && rounding.overflow == Overflow::ieee) return {fresh_nan(f, rounding), flags};
  return {f.with_sign(f.max_finite(), sign), flags};
}

/// An exactly zero sum of terms that are not both zero of one sign (IEEE 754, 6.3).
constexpr Rounded zero_sum(const FloatFormat& f, const Rounding& rounding) {
  return {f.zero(rounding.mode == RoundingMode::toward_negative), 0};
}

}  // namespace halfulp
