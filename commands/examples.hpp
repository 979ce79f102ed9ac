// The examples of --help and of the manual pages: commands that run as they stand. tests/commands/examples_test.cpp
// runs them all.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace halfulp::cli {

/// One command line of a shell.
struct Example {
  std::string_view command;  ///< of which command: "explain"; "" of halfulp itself
  std::string_view line;     ///< as one types it
  int status = 0;            ///< the exit status
};

/// Of every command, in an order in which they can be run one after the other in one folder. Beside what they make
/// themselves they take gradients.npy, an array of floats.
std::span<const Example> examples();

/// Settings with which an experiment takes a second.
struct ExperimentExample {
  std::string_view experiment;
  std::string_view settings;
};
std::span<const ExperimentExample> experiment_examples();

/// "bin/underflow" or "halfulp run underflow" with the settings of its example, behind `program`; empty where it has
/// none.
std::string example_of_experiment(std::string_view experiment, std::string_view program);

/// Lines for the help of a command, of halfulp or of an experiment's executable, "# exit status 1" behind those whose
/// status is not 0. `program` is how the command was called: "halfulp explain", "underflow".
std::vector<std::string> examples_of(const CLI::App& app, std::string_view program);

}  // namespace halfulp::cli
