// What a rounding does to a magnitude: it vanishes, becomes subnormal, stays normal, or overflows.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace halfulp {

enum class Fate : std::uint8_t { zero, subnormal, normal, overflow };
inline constexpr std::array<std::string_view, 4> fate_names{"zero", "subnormal", "normal", "overflow"};
constexpr std::string_view name_of(Fate fate) { return fate_names[static_cast<std::size_t>(fate)]; }

/// What became of a number that was finite and not zero. `flags()` gives the operation's IEEE flags; it is asked only
/// where the result is the largest finite value, which alone does not tell whether the range was left.
template <class F>
Fate fate_of(const FloatFormat& format, std::uint64_t code, F&& flags) {
  const std::uint64_t magnitude = format.magnitude(code);
  if (!format.is_finite(code)) return Fate::overflow;
  if (magnitude == format.max_finite() && (flags() & flag::overflow)) return Fate::overflow;
  return format.is_zero(code) ? Fate::zero : format.is_subnormal(code) ? Fate::subnormal : Fate::normal;
}

/// The same from the definition of rounding to nearest even, by comparing doubles: no arithmetic of the emulation.
/// Between 0 and the smallest subnormal the midpoint goes to 0, whose code is even; between the largest subnormal and
/// the smallest normal it goes up; above the largest finite value it overflows where that value's code is odd.
struct NearestEvenLimits {
  double twice_zero;    ///< x vanishes where 2|x| <= this (the doubled bound is a double in every format)
  double below_normal;  ///< else x is subnormal where |x| < this
  double overflow;      ///< x overflows where |x| > this,
  bool tie_overflows;   ///< or where |x| is equal to it

  explicit NearestEvenLimits(const FloatFormat& f)
      : twice_zero(f.value(f.min_positive())),
        below_normal(f.value(f.min_normal()) - f.value(f.min_positive()) / 2),
        overflow(f.value(f.max_finite()) + FloatFormat::power_of_two(f.exponent(f.max_finite())) / 2),
        tie_overflows(f.max_finite() % 2 != 0) {}

  Fate fate(double x) const {
    const double magnitude = std::fabs(x);
    if (magnitude > overflow || (tie_overflows && magnitude == overflow)) return Fate::overflow;
    if (2 * magnitude <= twice_zero) return Fate::zero;
    return magnitude < below_normal ? Fate::subnormal : Fate::normal;
  }
  /// The largest double that vanishes.
  double largest_zero() const { return twice_zero / 2; }
  /// The smallest double that overflows, Infinity if none does.
  double smallest_overflow() const {
    return tie_overflows ? overflow : std::nextafter(overflow, std::numeric_limits<double>::infinity());
  }
};

}  // namespace halfulp
