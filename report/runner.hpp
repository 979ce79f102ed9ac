// One experiment from configuration to report, held against the backends asked for.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/hardware/backend.hpp>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp {

/// A backend named on the command line whose device is not here: exit status 3. what() is one line.
struct BackendMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RunOptions {
  std::vector<const Backend*> backends;          ///< `emulated` among them or not: it always computes the results
  int threads = 0;                               ///< 0: one a core
  std::function<void(double)> progress;          ///< may be empty; called with [0, 1], never from two threads at once
  std::function<void(const std::string&)> note;  ///< may be empty; what is going on, likewise
  /// Reports that were made before, among which experiments find those of others; may be empty. Null where there is
  /// none.
  std::function<const Report*(std::string_view experiment, const Json& config)> made_before;
  std::string command;  ///< the command line, for the report's environment
};

/// Throws BackendMissing, in one line with the reason, where the backend's device is not here.
void require_available(const Backend& backend);

/// "emulated,x86" as backends. Throws std::invalid_argument for unknown and repeated names, BackendMissing for one
/// whose device is not here. Nothing given: every backend this build knows, those without a device included (they are
/// skipped).
std::vector<const Backend*> choose_backends(const std::optional<std::string>& given);

/// The operands that the experiment meets: a run of it without backends. Throws as run_experiment does.
Trace operands_of(const Experiment& experiment, const Config& config, const RunOptions& options);

/// Runs the experiment, replays its trace on every backend but the emulation, and describes the environment.
/// Throws what the experiment throws, and Interrupted after Ctrl-C.
Report run_experiment(const Experiment& experiment, const Config& config, const RunOptions& options);

}  // namespace halfulp
