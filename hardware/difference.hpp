// In what way two results differ: one set of classes for comparisons with devices and for verification.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <array>
#include <map>
#include <string>
#include <string_view>

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

/// How many steps from one finite result to the other, from value to next value; 0 where one is not finite, and of integers and
/// truth values.
std::uint64_t units_apart(const Task& task, const Witness& witness);

/// Whether differences of these classes and of at most this distance are those of a function that is not correctly rounded:
/// no NaN where a number should be, nothing more than most_units_apart away. Anything else is a wrong answer, or none.
inline constexpr std::uint64_t most_units_apart = 1000;
inline bool is_approximation(const std::map<std::string, std::uint64_t>& classes, std::uint64_t farthest) {
  return classes.count("nan") == 0 && farthest <= most_units_apart;
}

}  // namespace halfulp
