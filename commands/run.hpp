// Running experiments from the command line: shared by `halfulp run` and the single-experiment executables.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/report/trial_store.hpp>
#include <halfulp/support/files.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace halfulp::cli {

/// What the options of a run were given.
struct RunArguments {
  std::optional<std::string> config;    ///< --config FILE
  std::vector<std::string> settings;    ///< --set key=value
  std::optional<std::string> backends;  ///< --backend B[,B]
  std::string out = "reports/";         ///< --out FILE|DIR|-
  int threads = 0;
  bool quiet = false, verbose = false;
  std::optional<std::string> store;  ///< --store DIR
  bool parameters = false;           ///< --parameters: show them, run nothing
  std::string command;               ///< the whole command line
};

void add_run_options(CLI::App& app, RunArguments& arguments);
/// Adds --store, for commands that run experiments with trials.
void add_store_option(CLI::App& app, RunArguments& arguments);
/// Of the options of a run only those that decide what a run computes: --config, --set, --backend and --threads.
void add_configuration_options(CLI::App& app, RunArguments& arguments);
/// Throws std::invalid_argument in one line for unknown names.
const Experiment& experiment_named(const std::string& name, const std::string& command);
/// The parameters that the options give an experiment.
Config configuration(const Experiment& experiment, const RunArguments& arguments);

/// A store of trials, as commands use it: what is damaged in it is said on standard error.
TrialStore open_store(const std::string& folder, TrialStore::IfAbsent if_absent);
/// Adds only --set, one of these.
void add_setting_option(CLI::App& app, RunArguments& arguments, const std::string& help);

/// A file that a command writes, and the option that names it.
struct OutputFile {
  std::string option, path;
};
/// Throws std::invalid_argument in one line if a parameter names one of the files: a path, or a file in a list, which
/// ends in .json. (`output` and `save_gradients` name what is written.)
void keep_named_files(const Config& config, std::span<const OutputFile> written);

/// What a command adds to a run of experiments.
struct RunHooks {
  std::string out = "--out";            ///< the option that names the report's file
  std::vector<OutputFile> others = {};  ///< what is written besides
  /// Refuses a configuration, with the report's file, before anything runs.
  std::function<void(const Config&, const std::string& file)> check = {};
  /// Files that are written with a report: all of them or none.
  std::function<std::vector<FileText>(const Report&)> with = {};
  std::function<void(const Report&)> then = {};  ///< sees each report before any is summed up
};

/// Runs the experiments one after the other, writes their reports, prints a summary. The exit status: 1 if a claim
/// fails or a comparison differs. All input is checked before the first one runs.
int run_experiments(const std::vector<const Experiment*>& chosen, const RunArguments& arguments,
                    const RunHooks& hooks = {});

/// Its question and a table of its parameters: name, type, default, range, help.
std::string experiment_help(const Experiment& experiment);

}  // namespace halfulp::cli
