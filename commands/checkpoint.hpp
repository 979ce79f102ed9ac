// What commands about checkpoints share: inspect, choose, quantize.
#pragma once

#include <halfulp/commands/run.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace halfulp::cli {

/// What the options of a command about a checkpoint were given.
struct CheckpointArguments : RunArguments {
  /// An option and the parameter that it sets.
  struct Setting {
    std::string option;
    std::optional<std::string> value;
  };
  std::map<std::string, Setting> parameters;  ///< by the parameter's name

  /// Adds an option that is a parameter of the report.
  CLI::Option* add(CLI::App& app, const std::string& option, const std::string& parameter, const std::string& help);
};

/// Whether a path can only be a checkpoint's: it is a folder, a .safetensors file or an index of shards.
bool names_checkpoint(const std::string& path);

/// Throws std::invalid_argument in one line if a file that would be written is one of the checkpoint's own, which the
/// parameter names.
void keep_inputs(const Config& config, const std::vector<std::string>& written, const char* parameter = "checkpoint");

/// Makes the report. Errors about a parameter name the option that set it.
int run_checkpoint(const Experiment& experiment, CheckpointArguments options, const RunHooks& hooks);

/// Makes the report on the checkpoint of the options beside another. The exit status: 1 too if they differ.
int compare_checkpoints(CheckpointArguments options, const std::string& against);

}  // namespace halfulp::cli
