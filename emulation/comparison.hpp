// Comparisons, minimum and maximum.
#pragma once

#include <halfulp/emulation/operand.hpp>

namespace halfulp {

/// Position of a non-NaN code on the number line: a < b in value exactly where order(a) < order(b); -0 and +0 are
/// equal.
constexpr std::int64_t order(const FloatFormat& f, const Rounding& rounding, std::uint64_t code) {
  if (unpack(f, rounding, code).kind == Kind::zero) return 0;
  const auto magnitude = static_cast<std::int64_t>(f.magnitude(code));
  return f.sign(code) ? -magnitude : magnitude;
}

namespace detail {
/// Whether a pair is ordered (no NaN), and the flags of a quiet or a signalling predicate.
struct Ordered {
  bool ordered;
  Flags flags;
};
constexpr Ordered ordered(const FloatFormat& f, std::uint64_t a, std::uint64_t b, bool signaling) {
  if (!f.is_nan(a) && !f.is_nan(b)) return {true, 0};
  return {false, signaling || f.is_signaling(a) || f.is_signaling(b) ? flag::invalid : Flags{0}};
}
}  // namespace detail

/// IEEE 754 compareQuietEqual: 1 or 0; invalid only for a signalling NaN.
constexpr Rounded eq(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  const auto [ordered, flags] = detail::ordered(f, a, b, false);
  return {ordered && order(f, rounding, a) == order(f, rounding, b), flags};
}
/// IEEE 754 compareSignalingLess: 1 or 0; invalid for any NaN.
constexpr Rounded lt(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  const auto [ordered, flags] = detail::ordered(f, a, b, true);
  return {ordered && order(f, rounding, a) < order(f, rounding, b), flags};
}
/// IEEE 754 compareSignalingLessEqual: 1 or 0; invalid for any NaN.
constexpr Rounded le(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  const auto [ordered, flags] = detail::ordered(f, a, b, true);
  return {ordered && order(f, rounding, a) <= order(f, rounding, b), flags};
}

/// IEEE 754-2019 minimumNumber (`want_max` false) or maximumNumber: a NaN counts as missing, -0 is below +0.
constexpr Rounded min_max(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                          bool want_max) {
  const Flags flags = f.is_signaling(a) || f.is_signaling(b) ? flag::invalid : Flags{0};
  if (f.is_nan(a) && f.is_nan(b)) return nan_result(f, rounding, {a, b});
  std::uint64_t chosen = f.is_nan(a) ? b : a;
  if (!f.is_nan(a) && !f.is_nan(b)) {
    const std::int64_t x = order(f, rounding, a), y = order(f, rounding, b);
    const bool a_below = x < y || (x == y && f.sign(a));
    chosen = a_below != want_max ? a : b;
  }
  const Operand x = unpack(f, rounding, chosen);
  return {x.kind == Kind::zero ? f.zero(x.sign) : chosen, flags};
}
/// IEEE 754-2019 minimumNumber: the smaller operand; the number, where the other is a NaN.
constexpr Rounded min(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  return min_max(f, rounding, a, b, false);
}
/// IEEE 754-2019 maximumNumber: the larger operand; the number, where the other is a NaN.
constexpr Rounded max(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b) {
  return min_max(f, rounding, a, b, true);
}

}  // namespace halfulp
