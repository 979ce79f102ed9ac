// Emulation held against a device: how many code words differ, in what way, and where first.
#pragma once

#include <halfulp/hardware/backend.hpp>
#include <halfulp/hardware/difference.hpp>

#include <map>

namespace halfulp {

/// The outcome of one task on one backend.
struct Comparison {
  std::string backend;
  std::string independence;
  Task task;            ///< with the backend's NaN rule taken over
  std::string route;    ///< the instructions that computed it
  std::string skipped;  ///< why nothing was compared; empty where something was
  bool approximate = false;  ///< the route need not be correctly rounded
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t farthest = 0;  ///< the largest units_apart of those that differ
  std::uint64_t unanswered = 0;  ///< operands of which the backend has no result: not among those compared
  std::map<std::string, std::uint64_t> classes;  ///< difference_class -> count
  std::vector<Witness> witnesses;                ///< the first ones, at most 8
  /// It differs though the route is correctly rounded, or as no approximation does.
  bool fails() const { return differing != 0 && !(approximate && is_approximation(classes, farthest)); }
};

/// Runs a task on the emulation and on a backend over the same operands and compares code words.
/// The emulation takes over the backend's NaN rule, so no difference is masked and none invented. Of a recording, those
/// operands are compared that it was asked for; if it was asked for none of them, that is why the comparison is skipped. So is one
/// that the device had no room for; a device that is lost is an exception, DeviceFailure.
Comparison compare(const Backend& backend, Task task, const Operands& operands);

}  // namespace halfulp
