// What a floating-point format is: six stored fields; everything else is derived from them.
#pragma once

#include <halfulp/formats/bits.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace halfulp {

/// What the codes at the top of the range mean.
enum class NonFinite : std::uint8_t {
  ieee,               ///< IEEE 754: exponent all ones is Inf (fraction 0) or NaN
  nan_all_ones,       ///< OCP "fn": only the all-ones magnitude is NaN, no Inf (E4M3, E8M0)
  nan_negative_zero,  ///< "fnuz": the code of -0 is the only NaN, no Inf, no -0
  p3109,              ///< IEEE P3109: NaN at the code of -0, +-Inf at the all-ones magnitude
  none,               ///< OCP MX FP6/FP4: every code is finite
};

/// A binary floating-point format of at most 64 bits whose every value is also a double.
/// Structural: usable as a template argument and as a run-time value.
struct FloatFormat {
  int exponent_bits = 0;                  ///< 1 to 11
  int fraction_bits = 0;                  ///< 0 to 52
  int bias = 0;                           ///< what the exponent field is above the exponent
  NonFinite nonfinite = NonFinite::ieee;  ///< what the codes at the top of the range mean
  bool is_signed = true;                  ///< whether codes have a sign bit
  bool has_zero = true;                   ///< false for E8M0, where code 0 is the power of two 2^-bias

  constexpr bool operator==(const FloatFormat&) const = default;

  // --- widths and masks -------------------------------------------------------------------

  /// Bits of a code word, 1 to 64.
  constexpr int storage_bits() const { return (is_signed ? 1 : 0) + exponent_bits + fraction_bits; }
  /// Bytes of a code word in arrays and digests: 1, 2, 4 or 8.
  constexpr int storage_bytes() const {
    return storage_bits() <= 8 ? 1 : storage_bits() <= 16 ? 2 : storage_bits() <= 32 ? 4 : 8;
  }
  /// Hexadecimal digits of a code word.
  constexpr int hex_digits() const { return (storage_bits() + 3) / 4; }
  /// Significand bits of a normal value, the hidden bit included: p in the literature.
  constexpr int precision() const { return fraction_bits + 1; }
  constexpr std::uint64_t fraction_mask() const {
    return (std::uint64_t{1} << fraction_bits) - 1;
  }  ///< The bits of the fraction field.
  /// All bits but the sign.
  constexpr std::uint64_t magnitude_mask() const { return (std::uint64_t{1} << (exponent_bits + fraction_bits)) - 1; }
  constexpr std::uint64_t sign_mask() const {
    return is_signed ? magnitude_mask() + 1 : 0;
  }  ///< The sign bit; 0 in formats without sign.
  constexpr std::uint64_t code_mask() const { return magnitude_mask() | sign_mask(); }  ///< All bits of a code word.

  // --- range ------------------------------------------------------------------------------

  /// Exponent of the smallest normal value: min_normal = 2^emin.
  constexpr int emin() const { return (has_zero ? 1 : 0) - bias; }
  /// Exponent of the largest finite value.
  constexpr int emax() const {
    const int field = static_cast<int>(max_finite() >> fraction_bits);
    return std::max(field, has_zero ? 1 : 0) - bias;
  }
  /// Code of the largest finite value.
  constexpr std::uint64_t max_finite() const {
    // What is above it: a binade, one code, or nothing. Without a switch, so that every caller inlines it.
    const bool binade = nonfinite == NonFinite::ieee,
               one = nonfinite == NonFinite::nan_all_ones || nonfinite == NonFinite::p3109;
    return magnitude_mask() - (binade ? fraction_mask() + 1 : one ? 1 : 0);
  }
  /// Code of the smallest positive normal value.
  constexpr std::uint64_t min_normal() const { return has_zero ? std::uint64_t{1} << fraction_bits : 0; }
  /// Code of the smallest positive value.
  constexpr std::uint64_t min_positive() const { return has_zero ? 1 : 0; }
  constexpr bool has_subnormals() const {
    return has_zero && fraction_bits > 0;
  }  ///< Whether there are numbers between 0 and min_normal().

  // --- special values ---------------------------------------------------------------------

  /// Whether there are infinities.
  constexpr bool has_infinity() const { return nonfinite == NonFinite::ieee || nonfinite == NonFinite::p3109; }
  constexpr bool has_nan() const { return nonfinite != NonFinite::none; }  ///< Whether there is a NaN.
  /// Whether -0 is a code of its own.
  constexpr bool has_negative_zero() const {
    return is_signed && has_zero &&
           (nonfinite == NonFinite::ieee || nonfinite == NonFinite::nan_all_ones || nonfinite == NonFinite::none);
  }
  /// A magnitude with a sign; formats without sign ignore it.
  constexpr std::uint64_t with_sign(std::uint64_t magnitude, bool negative) const {
    return magnitude | (negative ? sign_mask() : 0);
  }
  /// Code of zero; a format without -0 gives +0 (DESIGN: "-0 does not exist: it becomes +0").
  constexpr std::uint64_t zero(bool negative = false) const {
    return negative && has_negative_zero() ? sign_mask() : 0;
  }
  /// Code of an infinity. Precondition: has_infinity().
  constexpr std::uint64_t infinity(bool negative = false) const { return with_sign(max_finite() + 1, negative); }
  /// The quiet bit of a NaN; 0 where a format has no signalling NaN.
  constexpr std::uint64_t quiet_bit() const {
    return nonfinite == NonFinite::ieee ? std::uint64_t{1} << (fraction_bits - 1) : 0;
  }
  /// The positive quiet NaN without payload. Precondition: has_nan().
  constexpr std::uint64_t canonical_nan() const {
    switch (nonfinite) {
      case NonFinite::ieee: return infinity() | quiet_bit();
      case NonFinite::nan_all_ones: return magnitude_mask();
      case NonFinite::nan_negative_zero:
      case NonFinite::p3109: return sign_mask();
      case NonFinite::none: break;
    }
    return max_finite();
  }

  // --- classification of a code word (upper bits must be zero) ------------------------------

  constexpr std::uint64_t magnitude(std::uint64_t code) const {
    return code & magnitude_mask();
  }  ///< The code word without its sign.
  constexpr bool sign(std::uint64_t code) const { return (code & sign_mask()) != 0; }  ///< Whether the sign bit is set.
  /// Whether it is a NaN.
  constexpr bool is_nan(std::uint64_t code) const {
    switch (nonfinite) {
      case NonFinite::ieee: return magnitude(code) > max_finite() + 1;
      case NonFinite::nan_all_ones: return magnitude(code) == magnitude_mask();
      case NonFinite::nan_negative_zero:
      case NonFinite::p3109: return code == sign_mask();
      case NonFinite::none: break;
    }
    return false;
  }
  /// Whether it is an infinity.
  constexpr bool is_infinite(std::uint64_t code) const { return has_infinity() && magnitude(code) == max_finite() + 1; }
  /// Whether it is a number: neither NaN nor infinity.
  constexpr bool is_finite(std::uint64_t code) const { return magnitude(code) <= max_finite() && !is_nan(code); }
  /// Whether it is a zero of either sign.
  constexpr bool is_zero(std::uint64_t code) const { return has_zero && magnitude(code) == 0 && !is_nan(code); }
  /// Whether it is smaller than min_normal(), and not zero.
  constexpr bool is_subnormal(std::uint64_t code) const {
    return has_zero && magnitude(code) != 0 && magnitude(code) < min_normal();
  }
  /// Whether it is a signalling NaN: one without the quiet bit.
  constexpr bool is_signaling(std::uint64_t code) const {
    return is_nan(code) && quiet_bit() != 0 && (code & quiet_bit()) == 0;
  }

  // --- values -----------------------------------------------------------------------------

  /// Integer significand of a finite code, the hidden bit included.
  constexpr std::uint64_t significand(std::uint64_t code) const {
    const std::uint64_t m = magnitude(code);
    const std::uint64_t hidden = std::uint64_t{1} << fraction_bits;
    if (!has_zero) return hidden | (m & fraction_mask());
    return m < hidden ? m : hidden | (m & fraction_mask());
  }
  /// Exponent of the last significand bit: value = (-1)^sign * significand * 2^exponent.
  constexpr int exponent(std::uint64_t code) const {
    const int field = static_cast<int>(magnitude(code) >> fraction_bits);
    return std::max(field, has_zero ? 1 : 0) - bias - fraction_bits;
  }
  /// The value of a code as a double: exact for every finite code, else +-Inf or a quiet NaN.
  constexpr double value(std::uint64_t code) const {
    const std::uint64_t negative = sign(code) ? std::uint64_t{1} << 63 : 0;
    if (is_nan(code)) return std::bit_cast<double>(std::uint64_t{0x7ff8'0000'0000'0000});
    if (is_infinite(code)) return std::bit_cast<double>(negative | 0x7ff0'0000'0000'0000);
    const std::uint64_t m = significand(code);
    if (m == 0) return std::bit_cast<double>(negative);
    const int top = bit_length(m) - 1;
    const int e = exponent(code) + top;
    const std::uint64_t bits = e >= -1022 ? (static_cast<std::uint64_t>(e + 1022) << 52) + (m << (52 - top))
                                          : m << (exponent(code) + 1074);
    return std::bit_cast<double>(negative | bits);
  }
  /// Distance from 1 to the next larger value: 2^-fraction_bits.
  constexpr double epsilon() const { return power_of_two(-fraction_bits); }
  /// Largest N such that every integer 0..N (1..N without zero) is a value of the format.
  constexpr double largest_consecutive_integer() const {
    if (emin() - fraction_bits > 0 || (!has_zero && bias < 0)) return 0;  // 1 is not a value
    const double limit = power_of_two(precision());
    const double max = value(max_finite());
    return limit <= max ? limit : static_cast<double>(static_cast<std::uint64_t>(max));
  }
  /// Decimal digits that survive text -> format -> text (`std::numeric_limits::digits10`).
  constexpr int digits10() const { return static_cast<int>(fraction_bits * 0.30102999566398120); }
  /// Decimal digits that identify every value (`std::numeric_limits::max_digits10`).
  constexpr int max_digits10() const { return static_cast<int>(precision() * 0.30102999566398120) + 2; }

  /// 2^e for -1074 <= e <= 1023.
  static constexpr double power_of_two(int e) {
    return std::bit_cast<double>(e >= -1022 ? static_cast<std::uint64_t>(e + 1023) << 52
                                            : std::uint64_t{1} << (e + 1074));
  }
};

}  // namespace halfulp
