// One experiment from configuration to report, held against the backends asked for.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/hardware/device.hpp>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp {

/// The command line names a backend that is not here: exit status 3. what() is one line.
struct BackendMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RunOptions {
  std::vector<const Device*> backends;           ///< `emulated` among them or not: it always computes the results
  int threads = 0;                               ///< 0: one per core
  std::function<void(double)> progress;          ///< may be empty; called with [0, 1], never from two threads at once
  std::function<void(const std::string&)> note;  ///< may be empty; says what is going on, likewise
  /// Finds the report of another experiment that was made before; may be empty. Returns null where there is none.
  std::function<const Report*(std::string_view experiment, const Json& config)> made_before;
  const TrialSource* source = nullptr;  ///< of trials (trials.hpp); outlives the run
  std::string command;                  ///< the command line, for the report's environment
};

/// Throws BackendMissing, in one line with the reason, where the device is not here.
void require_available(const Device& device);

/// "emulated,x86" as backends. Throws std::invalid_argument for unknown and repeated names, BackendMissing for one
/// whose device is not here. Nothing given: every backend this build knows, those without a device included (they are
/// skipped).
std::vector<const Device*> choose_backends(const std::optional<std::string>& given);

/// The operands that the experiment meets: a run of it without backends, and without what adds nothing to them
/// (Run::only_operands). Throws as run_experiment does.
Trace operands_of(const Experiment& experiment, const Config& config, const RunOptions& options);

/// Computes the trials of an experiment; makes no report and asks no backend. Throws TrialsMissing if options.source
/// leaves some trials to other processes, and what run_experiment throws.
void compute_trials(const Experiment& experiment, const Config& config, const RunOptions& options);

/// Runs the experiment, replays its trace on every backend but the emulation, and describes the environment.
/// Throws what the experiment throws, and Interrupted after Ctrl-C.
Report run_experiment(const Experiment& experiment, const Config& config, const RunOptions& options);

}  // namespace halfulp
