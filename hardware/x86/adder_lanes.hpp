// The adder route on whole vectors: what adder.cpp says about one double, eight at a time.
#pragma once

#if defined(__x86_64__)

#include <halfulp/hardware/device.hpp>

namespace halfulp::x86 {

/// add, sub, mul and div of an IEEE-like format, and conversions between two of them.
class AdderLanes {
 public:
  static bool take(const Task& task);

  /// Preconditions: take(task), and the adder route supports it.
  explicit AdderLanes(const Task& task);

  /// results[i] = task on operands[i]; a NaN is the canonical one, whatever it was made of.
  void run(const Operands& operands, std::span<std::uint64_t> results) const;

  /// Code words as doubles.
  struct Widening {
    int shift, sign_shift;  ///< from a code word's fraction and sign up to a double's
    std::uint64_t magnitude_mask, infinity;
    double up;  ///< 2^(1023 - bias)
  };
  /// Doubles as code words, and what becomes of those beyond the range.
  struct Narrowing {
    int shift, sign_shift;
    double down;                  ///< 2^(bias - 1023)
    double lowest, highest, max;  ///< 2^emin, 2^(emax + 1), the largest value
    std::uint64_t over[2];        ///< by sign
    std::uint64_t infinite, nan;
  };

 private:
  Operation operation_;
  RoundingMode mode_;
  Widening widening_;
  Narrowing narrowing_;
};

}  // namespace halfulp::x86

#endif
