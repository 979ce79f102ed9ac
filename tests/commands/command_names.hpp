// The commands of halfulp, from its own completion, and programs of the system.
#pragma once

#include "command.hpp"

#include <sstream>

namespace halfulp::tests {

inline std::vector<std::string> command_names() {
  std::vector<std::string> names;
  std::istringstream lines(run_halfulp({"completion", "words", "--", ""}).out);
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('\t')));
  return names;
}

/// Whether a program is on the PATH.
inline bool is_here(const std::string& program) {
  return run_program({"/bin/sh", "-c", "command -v " + program + " >/dev/null"}).status == 0;
}

}  // namespace halfulp::tests
