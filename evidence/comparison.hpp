// In what way two results differ: one set of classes for comparisons with devices and for verification.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/hardware/backend.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A case on which emulation and device, or another reference, disagree.
struct Witness {
  std::array<std::uint64_t, 3> operands{};
  int arity = 0;
  std::uint64_t emulated = 0, device = 0;
  bool has_flags = false;  ///< whether flags were compared as well
  Flags emulated_flags = 0, device_flags = 0;
  bool operator==(const Witness&) const = default;
};

/// The class of a difference, the first that applies:
/// "flags"            the code words are equal, the flags are not
/// "nan-sign"         two NaNs that differ in their sign alone
/// "nan-payload"      two NaNs that differ otherwise
/// "saturation"       the largest finite value against an infinity or an overflow's NaN
/// "nan"              a NaN against a number
/// "sign-of-zero"     0 against -0
/// "tie"              neighbours, and the exact result lies halfway between them
/// "double-rounding"  what the reference gives is the result rounded first to fp16, bf16, fp32 or fp64
/// "subnormal"        one of them is subnormal
/// "one-ulp"          neighbours
/// "other"
/// Ties and double rounding are found by the emulation; integers and truth values are "other".
std::string_view difference_class(const Task& task, const Witness& witness);

/// How many steps from one finite result to the other, from value to next value; 0 where one is not finite, and of
/// integers and truth values.
std::uint64_t units_apart(const Task& task, const Witness& witness);

/// Whether differences of these classes and of at most this distance are those of a function that is not correctly
/// rounded: no NaN where a number should be, nothing more than most_units_apart away. Anything else is a wrong answer,
/// or none.
inline constexpr std::uint64_t most_units_apart = 1000;
inline bool is_approximation(const std::map<std::string, std::uint64_t>& classes, std::uint64_t farthest) {
  return classes.count("nan") == 0 && farthest <= most_units_apart;
}

// Emulation held against a device: how many code words differ, in what way, and where first.

/// The outcome of one task on one backend.
struct Comparison {
  std::string backend;
  std::string independence;
  Task task;                 ///< with the backend's NaN rule taken over
  std::string route;         ///< the instructions that computed it
  std::string skipped;       ///< why nothing was compared; empty where something was
  bool approximate = false;  ///< the route need not be correctly rounded
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t farthest = 0;    ///< the largest units_apart of those that differ
  std::uint64_t unanswered = 0;  ///< operands of which the backend has no result: not among those compared
  std::map<std::string, std::uint64_t> classes;  ///< difference_class -> count
  std::vector<Witness> witnesses;                ///< the first ones, at most 8
  /// It differs though the route is correctly rounded, or as no approximation does.
  bool fails() const { return differing != 0 && !(approximate && is_approximation(classes, farthest)); }
};

/// Runs a task on the emulation and on a backend over the same operands and compares code words.
/// The emulation takes over the backend's NaN rule, so no difference is masked and none invented. Of a recording, those
/// operands are compared that it was asked for; if it was asked for none of them, that is why the comparison is
/// skipped. So is one that the device had no room for; a device that is lost is an exception, DeviceFailure.
Comparison compare(const Backend& backend, Task task, const Operands& operands);

}  // namespace halfulp

// What a verification found, chunk by chunk.

namespace halfulp::verify {

inline constexpr std::size_t max_witnesses = 8;

/// What was found over some inputs.
struct Findings {
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t farthest = 0;                    ///< the largest units_apart
  std::map<std::string, std::uint64_t> classes;  ///< difference_class -> count
  std::vector<Witness> witnesses;                ///< the first ones in input order
  /// One case that differs.
  void note(const Task& task, const Witness& witness);
  /// Adds what was found over the inputs that follow.
  Findings& operator+=(const Findings& later);
  bool operator==(const Findings&) const = default;
};

/// One run of chunk_size inputs (the last may be shorter), or of verify::pairs_per_chunk pairs: the unit of digests and
/// of resuming.
struct Chunk {
  std::uint64_t index = 0, digest = 0;
  Findings findings;
};

}  // namespace halfulp::verify
