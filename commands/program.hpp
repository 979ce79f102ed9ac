// Another program, run to its end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::cli {

/// What a program left: its exit status (128 + the signal that ended it), standard output and standard error.
struct ProgramAnswer {
  int status = 0;
  std::string output, error;
};

/// Runs the program words[0], which is looked up in PATH unless it has a slash, with `input` as its standard input;
/// `variables` replace those of the environment. Nothing if there is no such program. Throws Interrupted after Ctrl-C,
/// std::runtime_error where no process can be started.
std::optional<ProgramAnswer> run_program(const std::vector<std::string>& words,
                                         const std::vector<std::pair<std::string, std::string>>& variables,
                                         std::string_view input);

}  // namespace halfulp::cli
