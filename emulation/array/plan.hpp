// What the vector kernels need to know about a format and a rounding: constants, worked out once a call.
#pragma once

#include <halfulp/emulation/operand.hpp>

#include <array>
#include <optional>

namespace halfulp::array {

/// The type whose lanes carry values: float or double, with the names of its fields.
template <class T>
struct Carrier;
template <>
struct Carrier<float> {
  using Bits = std::uint32_t;
  static constexpr FloatFormat format{8, 23, 127};
};
template <>
struct Carrier<double> {
  using Bits = std::uint64_t;
  static constexpr FloatFormat format{11, 52, 1023};
};

/// Who hands values to the rounding: it decides what becomes of infinities.
enum class Source : std::uint8_t { conversion, arithmetic };

/// How magnitudes of a carrier (its bits without the sign) are rounded to a format.
///
/// Linear formats share the carrier's smallest normal exponent: what is dropped are the `tail` last bits of the
/// carrier, subnormals included. In the others the weight of the last kept bit is q = 2^(max(e, emin) - fraction_bits),
/// and the sum of the magnitude and C = 2^(max(e, emin) + tail) has exactly this last bit: the adder aligns.
///
/// In bf16 without saturation, what the addition of a mode carries out of the largest value is the infinity, and
/// infinities stay as they are (`upper_half`): only NaN is special. The same holds where x86's converter rounds to fp16
/// (`converter`), in the four modes that it knows.
template <class Bits>
struct NarrowPlan {
  RoundingMode mode;
  int random_bits;
  bool linear;
  bool upper_half;                 ///< kept is the upper half of a float, overflow included
  bool converter;                  ///< VCVTPS2PH gives the results, overflow included
  bool flushes;                    ///< zero_below matters
  bool saturates;                  ///< the overflow rule
  bool unsigned_zero;              ///< the format has no -0
  int tail;                        ///< fraction bits of the carrier - those of the format
  Bits emin;                       ///< bits of 2^emin
  Bits align;                      ///< added to the bits of 2^e they give those of C
  Bits align_codes;                ///< the same and units: the low bits of sums lack only e to be those of code words
  Bits special_from;               ///< from here on magnitudes need the tables below: overflow, Inf, NaN
  std::array<Bits, 2> zero_below;  ///< smaller magnitudes become zero; by sign, as the following
  std::array<Bits, 2> over_from;   ///< finite magnitudes from here on overflow
  std::array<Bits, 2>
      tiny_below;  ///< smaller magnitudes raise underflow where they are inexact; not of stochastic rounding
  /// Complete results, as bits of the carrier or as code words.
  struct Specials {
    std::array<Bits, 2> over, infinite;
    Bits nan;
    Bits max;  ///< the largest finite magnitude
  } values, codes;
  Bits code_offset;     ///< ((exponent field of 2^emin) << fraction_bits), taken off the code word
  int sign_shift;       ///< from the carrier's sign bit down to that of the code word
  Bits code_magnitude;  ///< the other bits of the code word
  /// Of code words of up to 8 bits: values times half_scale are fp16 numbers whose code words, shifted, are theirs.
  bool halves;
  float half_scale;
  int half_unused, half_missing, half_tail;  ///< upper bits of a byte; exponent and fraction bits that fp16 has more
};

/// The plan, or nothing where the kernels do not apply (and the scalar functions of conversion.hpp do the work):
/// formats without sign or zero, wider than the carrier or outside its range, NaN payloads to be kept, stochastic
/// rounding whose flushing depends on the random bits or whose variant is not truncate.
template <class T>
std::optional<NarrowPlan<typename Carrier<T>::Bits>> narrow_plan(const FloatFormat& f, const Rounding& rounding,
                                                                 Source source);

/// The least magnitude, as bits of the carrier, of numbers of a sign that are not tiny in a format: what is smaller and
/// not zero underflows, and is zero where outputs are flushed. Instantiated for float.
template <class T>
typename Carrier<T>::Bits least_not_tiny(const FloatFormat& f, const Rounding& rounding, bool negative);

/// Whether code words are floats without their last bits (bf16, tf32), so few bits that two roundings, first to float,
/// are one: 2p + 2 <= 24 for a precision p.
bool short_float(const FloatFormat& f);

/// How code words become values of a carrier.
struct WidenPlan {
  bool linear;
  bool flushes;            ///< subnormal code words become zero
  bool nan_negative_zero;  ///< the code word of -0 is NaN
  bool halves;             ///< finite code words are fp16 ones shifted by half_shift, times half_scale
  int half_shift, half_sign_shift;
  float half_scale;
  int tail;
  std::uint32_t magnitude_mask, max_finite, min_normal;
  std::uint32_t infinite;  ///< magnitude of the infinity; 0 where the format has none
  std::uint32_t emin;      ///< bits of 2^emin as a float
  int sign_shift;          ///< from the code word's sign bit up to the float's
};

/// The plan for floats, or nothing where code words have more than 32 bits or values that are not floats, no sign or no
/// zero, or are flushed to a zero that has no sign.
std::optional<WidenPlan> widen_plan(const FloatFormat& f, bool flush_inputs);

}  // namespace halfulp::array
