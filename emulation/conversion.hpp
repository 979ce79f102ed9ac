// Conversions: between formats, to and from integers, and rounding to an integral value.
#pragma once

#include <halfulp/emulation/operand.hpp>

namespace halfulp {

/// A two's complement or unsigned integer type of 32 or 64 bits.
struct IntegerType {
  int bits = 32;          ///< of its words, 32 or 64
  bool is_signed = true;  ///< two's complement, or unsigned
  constexpr bool operator==(const IntegerType&) const = default;
  constexpr std::uint64_t mask() const {
    return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  }  ///< All bits of a word.
};
inline constexpr IntegerType i32{32, true};   ///< two's complement of 32 bits
inline constexpr IntegerType i64{64, true};   ///< two's complement of 64 bits
inline constexpr IntegerType u32{32, false};  ///< 0 to 2^32 - 1
inline constexpr IntegerType u64{64, false};  ///< 0 to 2^64 - 1

/// A NaN of `from` in `to`: payloads keep their leading bits where both formats have them and the rule asks for it.
/// NanRule::keep: if these are all zero, an infinity.
constexpr Rounded convert_nan(const FloatFormat& from, const FloatFormat& to, const Rounding& rounding,
                              std::uint64_t code) {
  const Flags flags = from.is_signaling(code) || !to.has_nan() ? flag::invalid : Flags{0};
  if (!keeps_payload(rounding.nan) || !to.has_nan()) return {fresh_nan(to, rounding), flags};
  if (to.nonfinite != NonFinite::ieee)
    return {to.nonfinite == NonFinite::nan_all_ones ? to.with_sign(to.canonical_nan(), from.sign(code))
                                                    : to.canonical_nan(),
            flags};
  std::uint64_t payload = from.nonfinite == NonFinite::ieee ? code & from.fraction_mask() : 0;
  const int narrowing = from.fraction_bits - to.fraction_bits;
  payload = narrowing >= 0 ? payload >> narrowing : payload << -narrowing;
  const std::uint64_t quiet = rounding.nan == NanRule::keep && from.nonfinite == NonFinite::ieee ? 0 : to.quiet_bit();
  return {to.with_sign(to.infinity() | quiet | payload, from.sign(code)), flags};
}

/// IEEE 754 convertFormat between any two formats. An infinity that `to` cannot hold, or that saturates, becomes
/// NaN or +-max and raises overflow and inexact. To E8M0: DESIGN, "what happens at the edges".
constexpr Rounded convert(const FloatFormat& from, const FloatFormat& to, const Rounding& rounding, std::uint64_t code,
                          std::uint64_t random = 0) {
  const Operand x = unpack(from, rounding, code);
  switch (x.kind) {
    case Kind::nan: return convert_nan(from, to, rounding, code);
    case Kind::infinite:
      if (x.sign && !to.is_signed) return {to.canonical_nan(), flag::invalid};
      if (rounding.overflow == Overflow::saturate)
        return {to.with_sign(to.max_finite(), x.sign), flag::overflow | flag::inexact};
      return infinite(to, rounding, x.sign, to.has_infinity() ? 0 : flag::overflow | flag::inexact);
    case Kind::zero:
      if (!to.has_zero) return {0, flag::underflow | flag::inexact};
      return {to.zero(x.sign), 0};
    case Kind::finite: break;
  }
  return round_pack<std::uint64_t>(to, rounding, {x.sign, x.exponent, x.significand}, random);
}

/// A double in a format: `convert` from fp64, without its code word.
constexpr Rounded encode(const FloatFormat& to, const Rounding& rounding, double value, std::uint64_t random = 0) {
  constexpr FloatFormat binary64{11, 52, 1023};
  return convert(binary64, to, rounding, std::bit_cast<std::uint64_t>(value), random);
}

/// IEEE 754 convertToInteger: the result is the integer's bits, zero-extended. Out of range and NaN raise invalid
/// and give what rounding.int_overflow says; inexact is raised only where rounding.integer_inexact asks for it.
constexpr Rounded to_integer(const FloatFormat& from, IntegerType to, const Rounding& rounding, std::uint64_t code,
                             std::uint64_t random = 0) {
  const Operand x = unpack(from, rounding, code);
  const std::uint64_t top = std::uint64_t{1} << (to.bits - 1);
  const auto out_of_range = [&](bool negative) -> Rounded {
    if (rounding.int_overflow == IntOverflow::x86) return {to.is_signed ? top : to.mask(), flag::invalid};
    if (x.kind == Kind::nan) return {0, flag::invalid};
    if (negative) return {to.is_signed ? top : 0, flag::invalid};
    return {to.is_signed ? top - 1 : to.mask(), flag::invalid};
  };
  if (x.kind == Kind::zero) return {0, 0};
  if (x.kind != Kind::finite || x.exponent + bit_length(x.significand) > 65) return out_of_range(x.sign);

  const auto rounded = round_integer<uint128>(rounding, x.sign, x.significand, -x.exponent, random);
  const uint128 limit = !to.is_signed ? (x.sign ? 0 : uint128{to.mask()}) : uint128{top} - (x.sign ? 0 : 1);
  if (rounded.value > limit) return out_of_range(x.sign);
  const auto magnitude = static_cast<std::uint64_t>(rounded.value);
  return {(x.sign ? 0 - magnitude : magnitude) & to.mask(),
          rounded.inexact && rounding.integer_inexact ? flag::inexact : Flags{0}};
}

/// IEEE 754 convertFromInt: `bits` are the integer's bits, zero-extended.
constexpr Rounded from_integer(IntegerType from, const FloatFormat& to, const Rounding& rounding, std::uint64_t bits,
                               std::uint64_t random = 0) {
  const bool negative = from.is_signed && ((bits >> (from.bits - 1)) & 1) != 0;
  const std::uint64_t magnitude = (negative ? 0 - bits : bits) & from.mask();
  if (magnitude == 0) return to.has_zero ? Rounded{to.zero(), 0} : Rounded{0, flag::underflow | flag::inexact};
  return round_pack<uint128>(to, rounding, {negative, 0, magnitude}, random);
}

/// IEEE 754 roundToIntegral in the direction of rounding.mode; raises inexact only where rounding.integer_inexact
/// asks for it (then it is roundToIntegralExact). Zero results keep the operand's sign. Nothing underflows here, so
/// flush_outputs has no say.
constexpr Rounded round_to_integral(const FloatFormat& f, const Rounding& rounding, std::uint64_t code,
                                    std::uint64_t random = 0) {
  const Operand x = unpack(f, rounding, code);
  if (x.kind == Kind::nan) return nan_result(f, rounding, {code});
  if (x.kind == Kind::infinite) return {code, 0};
  if (x.kind == Kind::zero) return {f.zero(x.sign), 0};
  if (x.exponent >= 0) return {code, 0};
  const auto rounded = round_integer<std::uint64_t>(rounding, x.sign, x.significand, -x.exponent, random);
  Rounded result{f.zero(x.sign), 0};
  Rounding keep = rounding;
  keep.flush_outputs = false;
  if (rounded.value != 0) result = round_pack<std::uint64_t>(f, keep, {x.sign, 0, rounded.value}, random);
  if (rounded.inexact && rounding.integer_inexact) result.flags |= flag::inexact;
  return result;
}

}  // namespace halfulp
