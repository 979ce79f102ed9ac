// Runs another program to its end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::cli {

/// A program's exit status (128 + the signal that ended it), standard output and standard error.
struct ProgramAnswer {
  int status = 0;
  std::string output, error;
};

/// Runs the program words[0] with `input` as its standard input. Looks it up in PATH unless it contains a slash.
/// `variables` replace those of the environment. Returns nothing if there is no such program. Throws Interrupted after
/// Ctrl-C and std::runtime_error where no process can be started.
std::optional<ProgramAnswer> run_program(const std::vector<std::string>& words,
                                         const std::vector<std::pair<std::string, std::string>>& variables,
                                         std::string_view input);

}  // namespace halfulp::cli
