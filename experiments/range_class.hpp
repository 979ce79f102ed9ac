// Where rounding takes a magnitude: to zero, to the subnormal or the normal numbers, or beyond the range.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace halfulp {

enum class RangeClass : std::uint8_t { zero, subnormal, normal, overflow };
inline constexpr std::array<std::string_view, 4> range_class_names{"zero", "subnormal", "normal", "overflow"};
constexpr std::string_view name_of(RangeClass range) { return range_class_names[static_cast<std::size_t>(range)]; }

/// The class of the result `code` of a number that was finite and not zero. `flags()` gives the operation's IEEE flags.
/// It is called only for the largest finite value, which saturation gives too: that value does not tell whether the
/// number left the range.
template <class F>
RangeClass range_class_of(const FloatFormat& format, std::uint64_t code, F&& flags) {
  const std::uint64_t magnitude = format.magnitude(code);
  if (!format.is_finite(code)) return RangeClass::overflow;
  if (magnitude == format.max_finite() && (flags() & flag::overflow)) return RangeClass::overflow;
  return format.is_zero(code)        ? RangeClass::zero
         : format.is_subnormal(code) ? RangeClass::subnormal
                                     : RangeClass::normal;
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

  RangeClass classify(double x) const {
    const double magnitude = std::fabs(x);
    if (magnitude > overflow || (tie_overflows && magnitude == overflow)) return RangeClass::overflow;
    if (2 * magnitude <= twice_zero) return RangeClass::zero;
    return magnitude < below_normal ? RangeClass::subnormal : RangeClass::normal;
  }
  /// The largest double that vanishes.
  double largest_zero() const { return twice_zero / 2; }
  /// The smallest double that overflows, Infinity if none does.
  double smallest_overflow() const {
    return tie_overflows ? overflow : std::nextafter(overflow, std::numeric_limits<double>::infinity());
  }
};

}  // namespace halfulp
