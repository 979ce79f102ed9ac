// One table of everything a backend computes, held against the emulation: `halfulp check`.
#pragma once

#include <halfulp/evidence/comparison.hpp>
#include <halfulp/hardware/matrix.hpp>

#include <functional>
#include <string>
#include <vector>

namespace halfulp {

/// One thing a device computed, and how it compares.
struct Check {
  std::string group = {};    ///< "operation", "matrix unit", "kernel"
  std::string name = {};     ///< "add fp16 nearest-even", "hopper.wgmma.e4m3.fp32"
  std::string route = {};    ///< what computed it
  std::string skipped = {};  ///< why nothing was compared; empty where something was
  bool approximate = false;  ///< it need not be correctly rounded
  std::uint64_t compared = 0, differing = 0, farthest = 0;
  std::string witness = {};      ///< the first case that differs, in hexadecimal; empty where none does
  std::uint64_t unanswered = 0;  ///< further cases, of which a recording has no answer
  bool wild = false;             ///< it differs as no approximation does (is_approximation)
  bool fails() const { return differing != 0 && (!approximate || wild); }
};

/// `progress` is called with [0, 1] before each part of the work, and may throw.
using Progress = std::function<void(double)>;

/// Every task of the recording suite that the backend has, and those it has beyond it, on the suite's operands.
/// Precondition: backend.available().yes. This and the following throw DeviceFailure where a device breaks down.
std::vector<Check> check_operations(const Backend& backend, const Progress& progress);

/// Every device against the model of the unit that it is named after, on the questions of the recording suite, the
/// probe's among them, and on every kind of tiles: `tiles` cases of each, at the depth of one instruction and of
/// several with a part of one.
std::vector<Check> check_matrix_units(std::span<const MatrixDevice* const> devices, std::size_t tiles,
                                      const Progress& progress);

}  // namespace halfulp
