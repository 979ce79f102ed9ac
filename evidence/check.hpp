// One table of everything a device computes, held against the emulation: `halfulp check`.
#pragma once

#include <halfulp/evidence/comparison.hpp>

#include <functional>
#include <string>
#include <vector>

namespace halfulp {

/// One thing a device computed, and how it compares.
struct Check {
  std::string group = {};  ///< "operation", "matrix unit", "kernel"
  std::string name = {};   ///< "add fp16 nearest-even", "hopper.wgmma.e4m3.fp32"
  Comparison found = {};
  /// The first case that differs, in hexadecimal; empty where none does.
  std::string witness() const;
};

/// Called with [0, 1] before each part of the work; may throw.
using Progress = std::function<void(double)>;

/// Every task of the recording suite that the device has, and its own tasks, on the suite's operands. Precondition:
/// device.available().yes. This and the following throw DeviceFailure where a device breaks down.
std::vector<Check> check_operations(const Device& device, const Progress& progress);

/// Every matrix instruction against the model of its unit, on the questions of the recording suite, the probe's among
/// them, and on every kind of tiles: `tiles` cases of each, at the depth of one instruction and at one of several and a
/// part.
std::vector<Check> check_matrix_units(const Device& device, std::size_t tiles, const Progress& progress);

}  // namespace halfulp
