// Two sides that answer the same cases, held against each other: how many results differ, in what way, and where first.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/hardware/device.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A case on which the emulation and a device, or another reference, disagree.
struct Mismatch {
  std::array<std::uint64_t, 3> operands{};
  int arity = 0;
  std::uint64_t emulated = 0, device = 0;
  bool has_flags = false;  ///< whether flags were compared as well
  Flags emulated_flags = 0, device_flags = 0;
  std::string text = {};  ///< all of it for people, where a case is more than three operands; else empty
  bool operator==(const Mismatch&) const = default;
};

/// The class of a difference, the first that applies:
/// "flags"            the code words are equal, the flags are not
/// "nan-sign"         two NaNs that differ only in their sign
/// "nan-payload"      two NaNs that differ otherwise
/// "saturation"       the largest finite value against an infinity or an overflow's NaN
/// "nan"              a NaN against a number
/// "sign-of-zero"     0 against -0
/// "tie"              neighbours, and the exact result lies halfway between them
/// "double-rounding"  what the reference gives is the result rounded first to fp16, bf16, fp32 or fp64
/// "subnormal"        one of them is subnormal
/// "one-ulp"          neighbours
/// "other"
/// The emulation finds ties and double rounding; integers and truth values are "other".
std::string_view difference_class(const Task& task, const Mismatch& mismatch);

/// How many steps from one finite result to the other, from value to next value; 0 where one is not finite, and for
/// integers and truth values.
std::uint64_t units_apart(const Task& task, const Mismatch& mismatch);

/// Whether differences of these classes, this far apart at most, are those of a function that is not correctly rounded:
/// no NaN where a number should be, nothing left unwritten, nothing more than most_units_apart away. Anything else is a
/// wrong answer, or none.
inline constexpr std::uint64_t most_units_apart = 1000;
inline bool is_approximation(const std::map<std::string, std::uint64_t>& classes, std::uint64_t farthest) {
  return classes.count("nan") == 0 && classes.count("unwritten") == 0 && farthest <= most_units_apart;
}

/// What came of holding two sides against each other.
struct Comparison {
  std::string route;         ///< what computed the other side: the instructions
  std::string skipped;       ///< why nothing was compared; empty where something was
  bool approximate = false;  ///< the route need not be correctly rounded
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t farthest = 0;    ///< the largest distance between results, in units: see units_apart
  std::uint64_t unanswered = 0;  ///< cases that the other side has no result for; they are not among those compared
  std::map<std::string, std::uint64_t> classes;  ///< difference_class -> count
  std::vector<Mismatch> witnesses;               ///< the first ones, at most most_witnesses
  static constexpr std::size_t most_witnesses = 8;

  /// One case that differs: its class, how far apart the results are, and what describes it. `mismatch` is called only
  /// while witnesses are kept.
  template <class F>
  void note(std::string_view its_class, std::uint64_t apart, F&& mismatch) {
    ++differing;
    farthest = std::max(farthest, apart);
    ++classes[std::string(its_class)];
    if (witnesses.size() < most_witnesses) witnesses.push_back(mismatch());
  }
  /// The same for a case of an element-wise task.
  void note(const Task& task, const Mismatch& mismatch) {
    note(difference_class(task, mismatch), units_apart(task, mismatch), [&] { return mismatch; });
  }
  /// Adds what was found over the cases that follow.
  Comparison& operator+=(const Comparison& later);

  /// It differs though the route is correctly rounded, or as no approximation does.
  bool fails() const { return differing != 0 && !(approximate && is_approximation(classes, farthest)); }
  bool operator==(const Comparison&) const = default;
};

// The engine: blocks of cases that both sides have answered.

/// Whether the words are the code words, each in words.size() / codes.size() bytes: 1, 2, 4 or 8.
bool all_equal(std::span<const std::byte> words, std::span<const std::uint64_t> codes);

/// Adds a block. `emulated` holds words of emulated.size() / device.size() bytes each, little-endian; known[i] is 0
/// where the device has no result (an empty span: it has all). Calls note(i, emulated word, device's word) for each
/// case that differs.
template <class Note>
void compare_block(std::span<const std::byte> emulated, std::span<const std::uint64_t> device,
                   std::span<const char> known, Comparison& found, Note&& note) {
  if (device.empty()) return;
  const auto answered = known.empty() ? device.size()
                                      : static_cast<std::size_t>(std::count(known.begin(), known.end(), 1));
  found.compared += answered;
  found.unanswered += device.size() - answered;
  if (all_equal(emulated, device)) return;  // the common case, in vectors
  const std::size_t bytes = emulated.size() / device.size();
  for (std::size_t i = 0; i < device.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, emulated.data() + i * bytes, bytes);
    if (word != device[i] && (known.empty() || known[i])) note(i, word, device[i]);
  }
}

// The emulation held against a device.

/// One element-wise task on one device.
struct TaskComparison : Comparison {
  std::string backend;  ///< the device's name
  std::string independence;
  Task task;  ///< with the device's NaN rule
};

/// Runs a task on the emulation and on a device over the same operands and compares code words. The emulation takes
/// over the device's NaN rule, so that no difference is masked and none invented. A recording is compared on those
/// operands that it has; if it has none of them, the comparison is skipped for that reason. It is skipped as well where
/// the device had no room. Throws DeviceFailure for a device that is lost.
TaskComparison compare(const Device& device, Task task, const Operands& operands);

/// Runs a matrix instruction and the model of its unit over the same cases. Precondition: task.here.yes. Throws
/// DeviceFailure.
Comparison compare(const Device& device, const MatrixTask& task, const MatrixUnit& model, const MatrixCases& cases);

}  // namespace halfulp
