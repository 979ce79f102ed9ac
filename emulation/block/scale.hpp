// The definition of block formats: how a block's scale follows from its largest magnitude, and an element's code word
// from the scale. The array functions of block.hpp must equal it.
//
// Operations between floats are fp32 operations, each rounded to nearest even; subnormals are kept. In the terms of
// formats/block_format.hpp:
//
// - Powers of two (floor, ceil, even, rceil) are clamped to normal numbers of the scale's format: 2^-127 to 2^127 for
//   E8M0, 2^-126 and more for fp32. An infinite amax counts as 2^128 (rceil: as its quotient).
// - The rule amax rounds the quotient amax / target to the scale's format, to nearest even, saturating. A result below
//   the smallest normal number becomes that number.
// - So a block of zeros has the smallest scale (2^-127 in E8M0, as in torchao), and nothing is divided by zero.
// - A block with a NaN has the scale NaN, so that all its values are NaN. Its elements' codes are NaN, or the largest
//   value if elements have no NaN. (OCP MX 1.0 leaves the conversion open; section 5.1 defines a NaN scale.)
// - Elements saturate, infinities too (OCP MX 1.0, section 6.3), in any rounding mode.
#pragma once

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <cmath>
#include <limits>

namespace halfulp {

/// What one block does to its elements.
struct BlockStep {
  std::uint32_t scale = 0;  ///< code word in the scale's format
  int zero = 0;             ///< zero point of affine elements
  float factor = 1;         ///< an element is v / factor or v * factor, rounded
  bool divides = false;
  float value = 1;  ///< what an element is multiplied with to give its value back: s, or s t
};

namespace block {

inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

/// 2^e for -149 <= e <= 127.
inline float power(int e) {
  return std::bit_cast<float>(e >= -126 ? static_cast<std::uint32_t>(e + 127) << 23 : std::uint32_t{1} << (e + 149));
}

/// floor(log2 x) of a positive float, infinity included (128).
inline int exponent(float x) {
  const std::uint32_t bits = bits_of(x);
  return bits >> 23 ? static_cast<int>(bits >> 23) - 127 : std::bit_width(bits) - 150;
}

/// Whether a positive float is a power of two; infinity counts as one.
inline bool is_power(float x) {
  const std::uint32_t bits = bits_of(x);
  return bits >> 23 ? (bits & 0x7f'ffff) == 0 : std::has_single_bit(bits);
}

/// floor(log2 r), where r is x rounded to `fraction_bits`, ties away from zero, with an unlimited exponent.
inline int exponent_of_rounded(float x, int fraction_bits) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t significand = bits >> 23 ? (bits & 0x7f'ffff) | 0x80'0000 : bits << (24 - std::bit_width(bits));
  const bool carries = significand + (std::uint32_t{1} << (22 - fraction_bits)) >= std::uint32_t{1} << 24;
  return exponent(x) + (carries && !std::isinf(x));
}

/// ceil(log2 x) of a positive float.
inline int ceiling(float x) { return exponent(x) + !is_power(x); }

/// The code word of 2^k for k within [emin, emax].
inline std::uint32_t power_code(const FloatFormat& f, int k) {
  return static_cast<std::uint32_t>(k - f.emin() + (f.has_zero ? 1 : 0)) << f.fraction_bits;
}

/// The exponent k of a power of two as scale, by a rule other than amax. amax: not NaN, not negative.
inline int scale_exponent(const BlockFormat& f, float amax) {
  const int least = f.scale.emin(), most = f.scale.emax();
  if (amax == 0) return least;
  int k = 0;
  switch (f.rule) {
    case ScaleRule::amax: break;
    case ScaleRule::floor: k = exponent(amax) - f.element.emax(); break;
    case ScaleRule::ceil: k = ceiling(amax) - f.element.emax(); break;
    case ScaleRule::even: k = exponent_of_rounded(amax, f.element.top_fraction_bits()) - f.element.emax(); break;
    case ScaleRule::rceil: {
      const float quotient = amax / static_cast<float>(f.element.target());
      k = quotient == 0 ? least : ceiling(quotient);
      break;
    }
  }
  return std::min(std::max(k, least), most);
}

/// A quotient as a scale: rounded to nearest even, saturating, at least the smallest normal number.
inline std::uint32_t rounded_scale(const FloatFormat& f, float quotient) {
  Rounding nearest;
  nearest.overflow = Overflow::saturate;
  const auto code = static_cast<std::uint32_t>(convert(fp32, f, nearest, bits_of(quotient)).code);
  return f.is_nan(code) || code > f.min_normal() ? code : static_cast<std::uint32_t>(f.min_normal());
}

/// The value of a scale's code word.
inline float scale_value(const FloatFormat& f, std::uint32_t code) { return static_cast<float>(f.value(code)); }

/// Limits 1 / s and (1 / t) / s to finite values, so that zeros stay zeros.
inline float bounded(float x) { return x > std::numeric_limits<float>::max() ? std::numeric_limits<float>::max() : x; }

inline BlockStep with_factor(const BlockFormat& f, std::uint32_t code, float tensor) {
  BlockStep step;
  const float s = scale_value(f.scale, code);
  step.scale = code;
  step.value = f.tensor_scale ? s * tensor : s;
  step.divides = f.use == ScaleUse::divide;
  step.factor = step.divides ? step.value : bounded(f.tensor_scale ? (1.0f / tensor) / s : 1.0f / s);
  if (step.divides && f.rule != ScaleRule::amax) {  // a power of two: multiplying by its reciprocal is exact
    step.divides = false;
    step.factor = 1.0f / s;
  }
  return step;
}

}  // namespace block

/// The scale of the tensor, from its largest magnitude: amax / (largest scale * target), within the normal floats; an
/// infinite amax counts as the largest float.
inline float tensor_scale(const BlockFormat& f, float amax) {
  const auto divisor = static_cast<float>(f.scale.value(f.scale.max_finite()) * f.element.target());
  const float t = block::bounded(amax) / divisor;
  if (std::isnan(t)) return std::numeric_limits<float>::quiet_NaN();  // whatever the given one's payload
  return std::max(t, std::numeric_limits<float>::min());
}

/// A block with elements up to amax in magnitude (NaN if one is), of a tensor with that scale. Not for affine elements.
inline BlockStep block_step(const BlockFormat& f, float amax, float tensor = 1.0f) {
  if (std::isnan(amax)) return block::with_factor(f, static_cast<std::uint32_t>(f.scale.canonical_nan()), tensor);
  if (f.rule != ScaleRule::amax)
    return block::with_factor(f, block::power_code(f.scale, block::scale_exponent(f, amax)), tensor);
  const auto target = static_cast<float>(f.element.target());
  if (f.use == ScaleUse::multiplier) {
    BlockStep step;
    step.factor = std::min(std::max(target / amax, block::power(-126)), block::power(126));
    step.value = 1.0f / step.factor;
    step.scale = block::bits_of(step.value);
    return step;
  }
  const float quotient = amax / target;
  return block::with_factor(f, block::rounded_scale(f.scale, f.tensor_scale ? quotient / tensor : quotient), tensor);
}

/// A block of affine elements whose values lie in [low, high] (NaN if one is), which is extended to hold 0. The scale
/// is (high - low) / (most - least), the zero point least - low / scale, rounded to nearest even and clamped.
inline BlockStep affine_step(const BlockFormat& f, float low, float high) {
  const int least = f.element.least(), most = f.element.most();
  if (std::isnan(low) || std::isnan(high))
    return block::with_factor(f, static_cast<std::uint32_t>(f.scale.canonical_nan()), 1.0f);
  low = std::min(low, 0.0f), high = std::max(high, 0.0f);
  BlockStep step = block::with_factor(f, block::rounded_scale(f.scale, (high - low) / static_cast<float>(most - least)),
                                      1.0f);
  const float zero = static_cast<float>(least) - std::nearbyint(low / step.value);
  step.zero = static_cast<int>(std::min(std::max(zero, static_cast<float>(least)), static_cast<float>(most)));
  return step;
}

/// The format in which elements are rounded: their own, or one whose numbers are the integers times 2^-fraction_bits,
/// sign and magnitude. Symmetric integers are exactly the numbers of an e1mY; the others saturate afterwards, and so
/// do those of 2 bits, because the vector kernels want a fraction bit.
inline FloatFormat element_grid(const BlockElement& e) {
  if (!e.is_integer()) return e.format;
  const int fraction = e.range == IntegerRange::symmetric && e.integer_bits > 2 ? e.integer_bits - 2 : 8;
  return {1, fraction, 1 - fraction + e.fraction_bits, NonFinite::none};
}

/// The rounding of elements: the mode and the use of random bits are those of `rounding`. Elements saturate; nothing is
/// flushed.
inline Rounding element_rounding(const Rounding& rounding) {
  Rounding r;
  r.mode = rounding.mode;
  r.variant = rounding.variant;
  r.random_bits = rounding.random_bits;
  r.overflow = Overflow::saturate;
  return r;
}

/// The code word of an element from that of its grid: two's complement in bits() bits, or the zero point's side of it.
inline std::uint8_t element_code(const BlockElement& e, std::uint64_t grid_code, int zero) {
  if (!e.is_integer()) return static_cast<std::uint8_t>(grid_code);
  const FloatFormat grid = element_grid(e);
  const int magnitude = static_cast<int>(grid.magnitude(grid_code));
  const int q = (grid.sign(grid_code) ? -magnitude : magnitude) + zero;
  const int clamped = q < e.least() ? e.least() : q > e.most() ? e.most() : q;
  return static_cast<std::uint8_t>(static_cast<unsigned>(clamped) & ((1u << e.integer_bits) - 1));
}

/// The code word of the element v in a block.
inline std::uint8_t block_element(const BlockFormat& f, const Rounding& rounding, const BlockStep& step, float v,
                                  std::uint64_t random = 0) {
  const float q = step.divides ? v / step.factor : v * step.factor;
  return element_code(
      f.element, convert(fp32, element_grid(f.element), element_rounding(rounding), block::bits_of(q), random).code,
      step.zero);
}

/// The value of an element's code word in a block, rounded to fp32 (nearest even): by E8M0 it is exact unless it leaves
/// fp32.
inline float block_value(const BlockFormat& f, const BlockStep& step, std::uint8_t code) {
  if (f.element.is_affine()) return static_cast<float>(f.element.integer(code) - step.zero) * step.value;
  return static_cast<float>(f.element.value(code)) * step.value;
}

}  // namespace halfulp
