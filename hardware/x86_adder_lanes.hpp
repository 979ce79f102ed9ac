// The adder route on whole vectors: what x86_adder.cpp says about one double, eight at a time.
#pragma once

#if defined(__x86_64__)

#include <halfulp/hardware/backend.hpp>

namespace halfulp::x86 {

/// add, sub, mul and div of an IEEE-like format.
class AdderLanes {
 public:
  static bool take(const Task& task);

  /// Preconditions: take(task), and the adder route supports it.
  explicit AdderLanes(const Task& task);

  /// results[i] = task on operands[i]; a NaN is the canonical one, whatever it was made of.
  void run(const Operands& operands, std::span<std::uint64_t> results) const;

  /// A format's fields inside a double, and what becomes of results beyond its range, by sign.
  struct Fields {
    int shift;                    ///< from a code word's fraction up to a double's
    int sign_shift;               ///< from a code word's sign up to a double's
    std::uint64_t magnitude_mask, infinity, nan;
    double up, down;              ///< 2^(1023 - bias) and its inverse
    double lowest, highest, max;  ///< 2^emin, 2^(emax + 1), the largest value
    std::uint64_t over[2];
  };

 private:
  Operation operation_;
  RoundingMode mode_;
  Fields fields_;
};

}  // namespace halfulp::x86

#endif
