// The examples of --help and of the manual pages: commands that run as they stand. tests/commands/manual_test.cpp
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

/// One shell command.
struct Example {
  std::string_view command;  ///< the command it shows: "explain"; "" for halfulp itself
  std::string_view line;     ///< as typed
  int status = 0;            ///< the exit status
};

/// The examples of every command. Those of one command can run one after the other in an empty folder: whoever copies
/// them from its help has no file that another command's example makes.
std::span<const Example> examples();

/// Settings with which an experiment takes a second.
struct ExperimentExample {
  std::string_view experiment;
  std::string_view settings;
};
std::span<const ExperimentExample> experiment_examples();

/// `program` ("bin/underflow" or "halfulp run underflow") followed by the settings of its example; empty where it has
/// none.
std::string example_of_experiment(std::string_view experiment, std::string_view program);

/// Example lines for the help of a command, of halfulp or of an experiment's executable. Lines whose status is not 0
/// end in "# exit status 1" or the like. `program` is how the command was called: "halfulp explain", "underflow".
std::vector<std::string> examples_of(const CLI::App& app, std::string_view program);

}  // namespace halfulp::cli
