// Asking a device everything the suite has.
#pragma once

#include <halfulp/evidence/recording.hpp>

#include <functional>

namespace halfulp::recording {

/// Operands for a source that makes none itself; they are kept in the recording.
struct Asked {
  std::string source;
  Task task;
  Columns operands;
};

/// What the backend answers to the suite and to `asked`, as far as it supports the tasks; sections in the order of the
/// suite. `progress` is called with [0, 1] and may throw. Of the origin the backend and the device are filled in.
/// Precondition: backend.available().yes.
Recording record(const Backend& backend, const std::vector<Asked>& asked, const std::function<void(double)>& progress);

}  // namespace halfulp::recording
