// Operations on narrow formats in double precision, so that one more rounding gives the narrow result.
#pragma once

#if defined(__x86_64__)

#include <halfulp/hardware/device.hpp>
#include <halfulp/hardware/x86/instructions.hpp>

namespace halfulp::x86 {

/// Code words of a format as doubles and back, both exact: a code shifted into the fields of a double lacks only the
/// difference of the biases, a power of two.
class Codec {
 public:
  /// Whether the format has what this file needs: exact powers of two above, and products, quotients and sums of
  /// products that are normal doubles.
  static bool takes(const FloatFormat& f) {
    return f.is_signed && f.has_zero && f.fraction_bits >= 1 && f.fraction_bits <= 48 && f.bias >= 0 &&
           f.emax() <= 500 && f.emin() - f.fraction_bits >= -500;
  }

  /// Precondition: takes(f), or f is fp64.
  explicit Codec(const FloatFormat& f);

  /// NaN payloads and the signalling bit of IEEE formats go along.
  double value(std::uint64_t code) const;
  /// The code of a finite value of the format.
  std::uint64_t code(double value) const;

 private:
  double special_value(std::uint64_t code) const;

  FloatFormat f_;
  int shift_;
  std::uint64_t max_finite_, magnitude_mask_;
  double up_ = 1, down_ = 1;  ///< 2^(1023 - bias) and its inverse
};

inline constexpr std::size_t block_size = 256;

/// Before one more rounding in `mode` to at most 51 bits, an operation may be rounded to the 53 bits of a double
/// - in a directed mode: in the same mode (it composes);
/// - to nearest: to odd (Boldo & Melquiond 2008), made of truncation and the CPU's own inexact flag.
/// This is the MXCSR of that first rounding; `odd_where_inexact` finishes it.
constexpr std::uint32_t mxcsr_before(RoundingMode mode) {
  return mxcsr_for(mode == RoundingMode::nearest_even ? RoundingMode::toward_zero : mode);
}

/// Under mxcsr_before(nearest_even): the result of the last instruction, made odd if it was inexact.
template <class T>
T odd_where_inexact(T result) {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  if ((read_mxcsr() & mxcsr_inexact) == 0) return result;
  write_mxcsr(mxcsr_before(RoundingMode::nearest_even));
  return std::bit_cast<T>(std::bit_cast<Bits>(result) | 1);
}

/// results[i] = the task's operation in double, rounded as above; conversions from formats and FMA's inputs are exact.
/// Sets MXCSR for its own duration. Preconditions: arithmetic, round_to_integral or convert, from formats that Codec
/// takes, fp64 (conversions), i32, i64 or u32.
void compute_in_double(const Task& task, const Operands& operands, std::span<double> results);

}  // namespace halfulp::x86

#endif
