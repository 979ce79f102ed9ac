// The search for the smallest operands on which two subjects differ.
#pragma once

#include <halfulp/emulation/witness/subject.hpp>

#include <functional>
#include <optional>

namespace halfulp::witness {

/// How hard a number is to grasp, zero being the easiest: 4 for each significant bit, 1 for each binade away from 1;
/// signs, then infinities and NaN come after the rest.
std::uint64_t weight(const FloatFormat& f, std::uint64_t code);

struct Options {
  /// Of a guided search at most, a quarter more at the ends of the range, and as many again to make what it found
  /// smaller.
  std::uint64_t cases = 4'000'000;
  std::size_t longest = 40;  ///< terms of a vector at most
  std::uint64_t seed = 1;
  bool any_nan = true;    ///< a NaN equals every NaN
  bool any_zero = false;  ///< -0 equals +0
};

struct Found {
  std::optional<std::vector<std::uint64_t>> operands;  ///< of the smallest case found
  bool exhaustive = false;  ///< every case was looked at, or every smaller one: none that is smaller differs
  std::uint64_t looked_at = 0, shrunk = 0;  ///< cases looked at to find one; cases tried to make it smaller
  std::size_t longest = 0;                  ///< vectors of up to that many terms were looked at
};

/// Exhaustive where operands have at most 24 bits together, and for the pairs of 16-bit formats that add, sub, mul and
/// div take; profiles are asked every code word of up to 32 bits. Smaller is a smaller largest weight, then a smaller
/// sum. Otherwise guided: light operands, boundary cases and random ones, vectors with the fewest terms first, and
/// where these do not differ, products of vectors at the ends of the result's range; what is found is made smaller by
/// dropping terms and by lighter operands, as long as the results differ. `progress` is told the fraction done; what it
/// throws ends the search. Throws std::invalid_argument for subjects that `refusal` refuses.
Found search(const Subject& a, const Subject& b, const Options& options = {},
             const std::function<void(double)>& progress = {});

}  // namespace halfulp::witness
