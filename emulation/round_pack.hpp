// The rounding kernel: one integer added below the last kept bit, then a truncation.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/bits.hpp>
#include <halfulp/formats/format.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace halfulp {

__extension__ using uint128 = unsigned __int128;

/// A value before rounding: (-1)^sign * significand * 2^exponent.
///
/// Operations hand over at least precision + random_bits + 2 significant bits, or all of them; bits
/// below those may have been jammed (ORed) into the last one. That is enough for every mode, stochastic
/// rounding with up to max_random_bits bits included, because the kernel never looks between the random
/// bits and the last bit of the significand except to ask whether anything is there.
template <class U>
struct Exact {
  bool sign = false;
  int exponent = 0;
  U significand = 0;  ///< below 2^(width - 1)
};

template <class U>
inline constexpr int width_of = static_cast<int>(sizeof(U) * 8);

/// The unsigned type wide enough for every operation on operands of a precision.
template <int precision>
using Wide = std::conditional_t<(precision <= 24), std::uint64_t, uint128>;

/// Bits needed to write x: 0 for 0.
constexpr int bit_length(uint128 x) {
  const auto high = static_cast<std::uint64_t>(x >> 64);
  return high ? 64 + bit_length(high) : bit_length(static_cast<std::uint64_t>(x));
}

/// x / 2^distance with every lost bit ORed into the last one ("sticky").
template <class U>
constexpr U shift_right_jam(U x, int distance) {
  if (distance <= 0) return x;
  if (distance >= width_of<U>) return x != 0;
  return (x >> distance) | ((x & ((U{1} << distance) - 1)) != 0);
}

/// An integer quotient significand / 2^tail, rounded.
template <class U>
struct Integer {
  U value;
  bool inexact;
};

/// significand / 2^tail rounded to an integer. `offset_odd` flips the parity that "even" and "odd" look at:
/// in formats without fraction bits the last bit of the code is the exponent's.
/// Precondition: significand < 2^(width - 1), and for tail < 0 the result fits.
template <class U>
constexpr Integer<U> round_integer(const Rounding& rounding, bool sign, U significand, int tail, std::uint64_t random,
                                   bool offset_odd = false) {
  if (tail <= 0) return {significand << -tail, false};
  constexpr int longest = width_of<U> - 2;
  if (tail > longest) {
    significand = shift_right_jam(significand, tail - longest);
    tail = longest;
  }
  const bool odd = (((significand >> tail) & 1) != 0) != offset_odd;
  const U dropped = significand & ((U{1} << tail) - 1);
  return {(significand + addend<U>(rounding, sign, odd, significand, tail, random)) >> tail, dropped != 0};
}

/// A finite value beyond the range: DESIGN, "what happens at the edges".
constexpr Rounded overflowed(const FloatFormat& f, const Rounding& rounding, bool sign) {
  constexpr Flags flags = flag::overflow | flag::inexact;
  const bool away = overflows_away(rounding, sign) || !f.has_zero;  // E8M0: NaN above the range, whatever the mode
  if (rounding.overflow == Overflow::saturate || !away) return {f.with_sign(f.max_finite(), sign), flags};
  if (f.has_infinity()) return {f.infinity(sign), flags};
  if (f.has_nan()) return {f.canonical_nan(), flags};
  return {f.with_sign(f.max_finite(), sign), flags};
}

/// A non-zero exact value rounded to a format. `random` supplies the bits of stochastic rounding.
template <class U>
constexpr Rounded round_pack(const FloatFormat& f, const Rounding& rounding, const Exact<U>& x,
                             std::uint64_t random = 0) {
  if (x.sign && !f.is_signed) return {f.canonical_nan(), flag::invalid};
  const int e = x.exponent + bit_length(x.significand) - 1;
  if (e > f.emax() + 1) return overflowed(f, rounding, x.sign);
  if (e < f.emin() && !f.has_zero) return {0, flag::underflow | flag::inexact};

  // base + kept is the code: the hidden bit carries into the exponent field, rounding up carries
  // through it, and subnormals are the numbers whose hidden bit is absent.
  const int binade = e < f.emin() ? f.emin() : e;
  const int tail = binade - f.fraction_bits - x.exponent;
  const auto base = (static_cast<std::uint64_t>(binade - f.emin()) << f.fraction_bits) - (f.has_zero ? 0 : 1);
  const auto kept = round_integer(rounding, x.sign, x.significand, tail, random, (base & 1) != 0);
  const std::uint64_t magnitude = base + static_cast<std::uint64_t>(kept.value);
  if (magnitude > f.max_finite()) return overflowed(f, rounding, x.sign);

  if (e < f.emin() && (kept.inexact || rounding.flush_outputs)) {
    bool tiny = true;
    if (rounding.tininess == Tininess::after && e == f.emin() - 1) {
      // Rounded as if the exponent had no bottom: one more bit is kept. Does it reach 2^emin? (Without fraction
      // bits the codes below 1 go on as 0, -1, ...: that of 2^(emin - 1) is even.)
      const auto unbounded = round_integer(rounding, x.sign, x.significand, tail - 1, random, f.fraction_bits == 0);
      tiny = bit_length(unbounded.value) <= f.precision();
    }
    if (tiny && rounding.flush_outputs) return {f.zero(x.sign), flag::underflow | flag::inexact};
    const std::uint64_t code = magnitude == 0 ? f.zero(x.sign) : f.with_sign(magnitude, x.sign);
    return {code, static_cast<Flags>(flag::inexact | (tiny ? flag::underflow : 0))};
  }
  return {f.with_sign(magnitude, x.sign), kept.inexact ? flag::inexact : Flags{0}};
}

}  // namespace halfulp
