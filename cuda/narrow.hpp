// Rounding one float to a format by the plan of the array functions, and back: host and device compile the same source.
//
// As in round_pack.hpp one integer is added below the last kept bit (round_integer); a plan saves what does not depend
// on the value. tests/cuda/narrow_test.cpp compares it with the array functions, on request for all 2^32 floats.
#pragma once

#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/round_pack.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace halfulp::cuda {

using NarrowPlan = array::NarrowPlan<std::uint32_t>;

/// The magnitude of a result, as a code word or as a float's bits.
enum class NarrowResult : std::uint8_t { code, value };

template <RoundingMode mode, NarrowResult kind>
struct NarrowNumber {
  static constexpr RoundingMode mode_of = mode;

  /// x: bits of a float; random: 32 random bits, for the stochastic mode. The code word, or the bits of its value.
  static constexpr std::uint32_t round(const NarrowPlan& plan, std::uint32_t x, std::uint32_t random = 0) {
    const bool sign = x >> 31 != 0;
    std::uint32_t u = x & 0x7fff'ffff;
    const auto& special = kind == NarrowResult::code ? plan.codes : plan.values;
    if (u >= plan.special_from) {
      if (u > infinity) return special.nan;
      if (u == infinity) return by_sign(special.infinite, sign);
      if (u >= by_sign(plan.over_from, sign)) return by_sign(special.over, sign);
    }
    if (plan.flushes && u < by_sign(plan.zero_below, sign)) u = 0;
    const std::uint32_t magnitude = plan.linear ? linear(plan, sign, u, random) : aligned(plan, sign, u, random);
    if (mode == RoundingMode::stochastic && magnitude > special.max) return by_sign(special.over, sign);
    const std::uint32_t negative = plan.unsigned_zero && magnitude == 0 ? 0
                                   : kind == NarrowResult::code         ? plan.code_magnitude + 1
                                                                        : sign_bit;
    return magnitude | (sign ? negative : 0);
  }

 private:
  static constexpr std::uint32_t sign_bit = 0x8000'0000, infinity = 0x7f80'0000, hidden = 0x0080'0000;
  static constexpr bool by_adder = mode == RoundingMode::nearest_even || mode == RoundingMode::toward_zero ||
                                   mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;

  /// a + b rounded by the mode. Both have one sign, and the sum's last bit is the one to keep.
  static constexpr float sum(float a, float b) {
#ifdef __CUDA_ARCH__
    if constexpr (mode == RoundingMode::toward_zero) return __fadd_rz(a, b);
    else if constexpr (mode == RoundingMode::toward_positive) return __fadd_ru(a, b);
    else if constexpr (mode == RoundingMode::toward_negative) return __fadd_rd(a, b);
    else return __fadd_rn(a, b);
#else
    // To nearest, then one unit back where that was the wrong direction; the difference from b is exact.
    const float nearest = a + b, kept = nearest - b;
    const bool wants_less = mode == RoundingMode::toward_negative || (mode == RoundingMode::toward_zero && b > 0);
    if (mode == RoundingMode::nearest_even || kept == a || (kept < a) == wants_less) return nearest;
    const bool grow = (b > 0) != wants_less;  // the magnitude's bits count up
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nearest) + (grow ? 1U : ~0U));
#endif
  }
  /// A choice instead of an index, for which a device would copy the plan to memory.
  static constexpr std::uint32_t by_sign(const std::array<std::uint32_t, 2>& x, bool sign) {
    return sign ? x[1] : x[0];
  }

  /// significand / 2^tail, tail >= 1, as round_integer has it. Beyond some distance the tail's length no longer
  /// matters: a 24-bit significand is then below half a unit, and below the least random number's complement.
  static constexpr std::uint32_t rounded(const NarrowPlan& plan, bool sign, std::uint32_t significand, int tail,
                                         std::uint32_t random) {
    using U = std::conditional_t<mode == RoundingMode::stochastic, std::uint64_t, std::uint32_t>;
    constexpr int longest = mode == RoundingMode::stochastic ? 60 : 30;
    tail = tail < longest ? tail : longest;
    const bool odd = (significand >> (tail < 31 ? tail : 31) & 1) != 0;
    const U added = addend<U>({.mode = mode, .random_bits = plan.random_bits}, sign, odd, significand, tail, random);
    return static_cast<std::uint32_t>((significand + added) >> tail);
  }
  /// The last bits of the float are dropped, whatever its exponent.
  static constexpr std::uint32_t linear(const NarrowPlan& plan, bool sign, std::uint32_t u, std::uint32_t random) {
    const std::uint32_t kept = rounded(plan, sign, u, plan.tail, random);
    return kind == NarrowResult::code ? kept : kept << plan.tail;
  }
  /// The last kept bit weighs 2^(max(e, emin) - fraction_bits).
  static constexpr std::uint32_t aligned(const NarrowPlan& plan, bool sign, std::uint32_t u, std::uint32_t random) {
    if constexpr (by_adder) {  // the sum with 2^(e + tail) has the last kept bit as its last: plan.hpp
      const std::uint32_t binade = (u & infinity) < plan.emin ? plan.emin : u & infinity, sign_of = sign ? sign_bit : 0;
      const auto aligner = std::bit_cast<float>((binade + plan.align) | sign_of);
      const float kept = sum(std::bit_cast<float>(u | sign_of), aligner);
      if (kind == NarrowResult::value) return std::bit_cast<std::uint32_t>(kept - aligner) & ~sign_bit;
      return (binade >> plan.tail) + (std::bit_cast<std::uint32_t>(kept) & (hidden - 1)) - plan.code_offset;
    }
    const std::uint32_t field = u >> 23, least = plan.emin >> 23;
    const std::uint32_t own = field == 0 ? 1 : field, binade = field < least ? least : field;
    const std::uint32_t significand = (u & (hidden - 1)) | (field == 0 ? 0 : hidden);
    const std::uint32_t kept = rounded(plan, sign, significand, plan.tail + static_cast<int>(binade - own), random);
    if (kind == NarrowResult::code) return (binade << (23 - plan.tail)) - plan.code_offset + kept;
    // An exact product: kept has no more bits than the format, and the unit is a normal number.
    const std::uint32_t unit = (binade - static_cast<std::uint32_t>(23 - plan.tail)) << 23;
    return std::bit_cast<std::uint32_t>(static_cast<float>(kept) * std::bit_cast<float>(unit));
  }
};

/// Calls f(Narrow) of the plan's mode: with_narrow<Result::value>(mode, [&](auto narrow) { ... }).
template <NarrowResult kind, class F>
constexpr auto with_narrow(RoundingMode mode, F&& f) {
  return with_mode(mode, [&](auto constant) { return f(NarrowNumber<decltype(constant)::value, kind>{}); });
}
template <NarrowResult kind>
constexpr std::uint32_t narrow_by_mode(const NarrowPlan& plan, std::uint32_t x, std::uint32_t random = 0) {
  return with_narrow<kind>(plan.mode, [&](auto narrow) { return decltype(narrow)::round(plan, x, random); });
}

/// The bits of the float that a code word stands for (array::WidenPlan).
constexpr std::uint32_t widen(const array::WidenPlan& plan, std::uint32_t code) {
  const std::uint32_t magnitude = code & plan.magnitude_mask, sign = (code ^ magnitude) << plan.sign_shift;
  constexpr std::uint32_t nan = 0x7fc0'0000, infinity = 0x7f80'0000;
  if (plan.nan_negative_zero && magnitude == 0 && sign != 0) return nan;
  if (magnitude > plan.max_finite) return plan.infinite != 0 && magnitude == plan.infinite ? sign | infinity : nan;
  if (plan.flushes && magnitude < plan.min_normal) return sign;
  if (plan.linear) return sign | magnitude << plan.tail;
  if (magnitude >= plan.min_normal)
    return sign | ((magnitude << plan.tail) + plan.emin - (plan.min_normal << plan.tail));
  // Subnormal: so many units of 2^(emin - fraction_bits), an exact product.
  const std::uint32_t unit = plan.emin - (static_cast<std::uint32_t>(23 - plan.tail) << 23);
  return sign | std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * std::bit_cast<float>(unit));
}

}  // namespace halfulp::cuda
