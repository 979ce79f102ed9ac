// On which operands do two cast rules differ? All of them are asked where there are at most 2^32.
#pragma once

#include <halfulp/emulation/cast/profile.hpp>

#include <functional>
#include <optional>

namespace halfulp {

/// A maximal run of operands (by code word) on which two rules differ in one way: operands are all finite, all infinite
/// or all NaN, and so are the results of either rule.
struct CastRange {
  std::uint64_t first = 0, last = 0;                               ///< code words of operands, inclusive
  std::uint64_t count = 0;                                         ///< operands in between that were looked at
  std::uint64_t a_first = 0, a_last = 0, b_first = 0, b_last = 0;  ///< results at both ends
  bool constant = true;                                            ///< both results are the same over the range
};

/// What cast_differences found.
struct CastDifferences {
  std::uint64_t compared = 0, differing = 0;  ///< inputs looked at, and those on which the two differ
  bool exhaustive = true;         ///< every operand was looked at; otherwise ranges are between operands of a sample
  std::vector<CastRange> ranges;  ///< by code word: positive operands, then negative ones
  std::optional<std::uint64_t>
      witness;  ///< the differing operand of least magnitude, finite before infinite before NaN
};

/// Two rules to the same format, and the format that they convert from.
struct CastQuestion {
  FloatFormat from;             ///< of the inputs
  const CastRule* a = nullptr;  ///< the one
  const CastRule* b = nullptr;  ///< and the other
  bool any_nan = false;         ///< a NaN equals every NaN
};

/// Operands of a format of 64 bits that rules are asked: boundary cases of the target (every value and midpoint with
/// their neighbours, and what lies so near that a rounding to fp32 on the way hides it), special values, and random
/// words. Ascending.
std::vector<std::uint64_t> sampled_operands(const FloatFormat& from, const FloatFormat& to);

/// Both rules are for the same target. `progress` is told the fraction done now and then, from any thread but one at a
/// time; what it throws ends the search. Threads do not show in the result. Throws std::invalid_argument for rules of
/// different targets.
CastDifferences differences(const CastQuestion& question, const std::function<void(double)>& progress = {});

}  // namespace halfulp
