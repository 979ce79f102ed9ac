// Float<F>: a format as a C++ type, for code that wants to read like arithmetic.
#pragma once

#include <halfulp/emulation/arithmetic.hpp>
#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <compare>
#include <functional>
#include <limits>
#include <ostream>
#include <type_traits>

namespace halfulp {

namespace detail {
/// floor(log10(x)) for a positive finite x not within rounding error of a power of ten.
constexpr int floor_log10(double x) {
  int n = 0;
  for (; x >= 10; x /= 10) ++n;
  for (; x < 1; x *= 10) --n;
  return n;
}
}  // namespace detail

/// A value of format F. Operators round to nearest even, overflow as IEEE, keep subnormals and drop flags: what a
/// plain `float` does. Every other behaviour is a function of arithmetic.hpp with a Rounding.
/// Conversions from double round; conversions to double are exact.
template <FloatFormat F>
class Float {
  static_assert(F.has_zero, "E8M0 has conversions only");
  using U = Wide<F.precision()>;
  static constexpr Rounding nearest{};

 public:
  /// The unsigned integer that holds a code word.
  using Storage =
      std::conditional_t<F.storage_bytes() == 1, std::uint8_t,
                         std::conditional_t<F.storage_bytes() == 2, std::uint16_t,
                                            std::conditional_t<F.storage_bytes() == 4, std::uint32_t, std::uint64_t>>>;
  static constexpr FloatFormat format = F;  ///< as a value

  constexpr Float() = default;
  /// Rounded to nearest even. Implicit from int and double, so that literals can stand in expressions.
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr explicit(!std::is_same_v<T, int> && !std::is_same_v<T, double>) Float(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      static_assert(sizeof(T) <= 8, "long double would round twice");
      code_ = static_cast<Storage>(encode(F, nearest, static_cast<double>(value)).code);
    } else {
      constexpr IntegerType integer{64, std::is_signed_v<T>};
      code_ = static_cast<Storage>(from_integer(integer, F, nearest, static_cast<std::uint64_t>(value)).code);
    }
  }
  /// From another format, rounded once.
  template <FloatFormat G>
    requires(G != F)
  constexpr explicit Float(Float<G> other) : code_(static_cast<Storage>(convert(G, F, nearest, other.code()).code)) {}

  /// The number with this code word; bits beyond the format's are dropped.
  static constexpr Float from_code(std::uint64_t code) {
    Float x;
    x.code_ = static_cast<Storage>(code & F.code_mask());
    return x;
  }
  constexpr Storage code() const { return code_; }                       ///< Its code word.
  constexpr explicit operator double() const { return F.value(code_); }  ///< Exact.
  constexpr explicit operator float() const {
    return static_cast<float>(F.value(code_));
  }  ///< Rounded, where a float does not hold it.

  /// The sum, rounded to nearest even.
  friend constexpr Float operator+(Float a, Float b) { return from_code(add<U>(F, nearest, a.code_, b.code_).code); }
  /// The difference, rounded to nearest even.
  friend constexpr Float operator-(Float a, Float b) { return from_code(sub<U>(F, nearest, a.code_, b.code_).code); }
  /// The product, rounded to nearest even.
  friend constexpr Float operator*(Float a, Float b) { return from_code(mul<U>(F, nearest, a.code_, b.code_).code); }
  /// The quotient, rounded to nearest even.
  friend constexpr Float operator/(Float a, Float b) { return from_code(div<U>(F, nearest, a.code_, b.code_).code); }
  constexpr Float operator+() const { return *this; }  ///< Itself.
  /// The number with the other sign; a zero or NaN that has none stays.
  constexpr Float operator-() const {
    return F.is_zero(code_) && !F.has_negative_zero()            ? *this
           : F.is_nan(code_) && F.is_zero(code_ ^ F.sign_mask()) ? *this
                                                                 : from_code(code_ ^ F.sign_mask());
  }
  constexpr Float& operator+=(Float b) { return *this = *this + b; }  ///< *this = *this + b
  constexpr Float& operator-=(Float b) { return *this = *this - b; }  ///< *this = *this - b
  constexpr Float& operator*=(Float b) { return *this = *this * b; }  ///< *this = *this * b
  constexpr Float& operator/=(Float b) { return *this = *this / b; }  ///< *this = *this / b

  /// As IEEE 754: no NaN equals anything, and -0 is +0.
  friend constexpr bool operator==(Float a, Float b) { return eq(F, nearest, a.code_, b.code_).code != 0; }
  /// As IEEE 754: unordered with NaN, and -0 is +0.
  friend constexpr std::partial_ordering operator<=>(Float a, Float b) {
    if (F.is_nan(a.code_) || F.is_nan(b.code_)) return std::partial_ordering::unordered;
    return order(F, nearest, a.code_) <=> order(F, nearest, b.code_);
  }

  friend constexpr Float sqrt(Float x) {
    return from_code(halfulp::sqrt<U>(F, nearest, x.code_).code);
  }  ///< the square root, rounded to nearest even
  /// The sum a * b + c, rounded once, to nearest even.
  friend constexpr Float fma(Float a, Float b, Float c) {
    return from_code(halfulp::fma<U>(F, nearest, a.code_, b.code_, c.code_).code);
  }
  friend constexpr Float abs(Float x) {
    return F.sign(x.code_) && !F.is_nan(x.code_) ? -x : x;
  }  ///< without its sign; a NaN as it is
  friend constexpr bool isnan(Float x) { return F.is_nan(x.code_); }       ///< whether it is a NaN
  friend constexpr bool isinf(Float x) { return F.is_infinite(x.code_); }  ///< whether it is an infinity
  friend constexpr bool isfinite(Float x) {
    return F.is_finite(x.code_);
  }  ///< whether it is a number: neither NaN nor infinity

  /// The shortest decimal that reads back as the same number.
  friend std::ostream& operator<<(std::ostream& out, Float x) { return out << print(F, x.code_); }

 private:
  Storage code_ = 0;
};

}  // namespace halfulp

/// \cond specialisations of standard templates
template <halfulp::FloatFormat F>
struct std::numeric_limits<halfulp::Float<F>> {
  using T = halfulp::Float<F>;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,
                        is_bounded = true, is_modulo = false, traps = false, tinyness_before = false;
  static constexpr bool has_infinity = F.has_infinity(), has_quiet_NaN = F.has_nan(),
                        has_signaling_NaN = F.nonfinite == halfulp::NonFinite::ieee && F.fraction_bits > 1;
  static constexpr bool is_iec559 = F.nonfinite == halfulp::NonFinite::ieee;
  static constexpr auto round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = F.precision(), digits10 = F.digits10(), max_digits10 = F.max_digits10(),
                       min_exponent = F.emin() + 1, max_exponent = F.emax() + 1,
                       min_exponent10 = static_cast<int>(F.emin() * 0.30102999566398120),
                       max_exponent10 = halfulp::detail::floor_log10(F.value(F.max_finite()));
  static constexpr T min() { return T::from_code(F.min_normal()); }
  static constexpr T max() { return T::from_code(F.max_finite()); }
  static constexpr T lowest() { return T::from_code(F.with_sign(F.max_finite(), true)); }
  static constexpr T denorm_min() { return T::from_code(F.min_positive()); }
  static constexpr T epsilon() { return T(F.epsilon()); }
  static constexpr T round_error() { return T(0.5); }
  static constexpr T infinity() { return T::from_code(F.has_infinity() ? F.infinity() : F.max_finite()); }
  static constexpr T quiet_NaN() { return T::from_code(F.canonical_nan()); }
  static constexpr T signaling_NaN() { return T::from_code(has_signaling_NaN ? F.infinity() | 1 : F.canonical_nan()); }
};

/// Equal values hash alike: -0 as +0.
template <halfulp::FloatFormat F>
struct std::hash<halfulp::Float<F>> {
  std::size_t operator()(halfulp::Float<F> x) const noexcept {
    return std::hash<std::uint64_t>{}(F.is_zero(x.code()) ? 0 : x.code());
  }
};
/// \endcond
