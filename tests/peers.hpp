// Other people's Python libraries, for tests of the exhaustive run that ask them live.
#pragma once

#include "command.hpp"

#include <halfulp_test_paths.hpp>

#include <cstdlib>
#include <string>
#include <vector>

namespace halfulp::tests {

/// A Python with these modules, or the reason why there is none. HALFULP_PEERS may name an existing virtual
/// environment; otherwise tests/peers/venv.sh makes one in the build tree.
struct PeerPython {
  std::string python, trouble;
};

inline PeerPython peer_python(const std::vector<std::string>& modules) {
  const char* given = std::getenv("HALFULP_PEERS");
  const std::string folder = given ? given : HALFULP_PEERS_FOLDER;
  PeerPython peer{folder + "/bin/python", {}};
  if (given) return peer;
  std::vector<std::string> command{"/usr/bin/env", "bash", HALFULP_PEERS_SCRIPTS "/venv.sh", folder};
  command.insert(command.end(), modules.begin(), modules.end());
  const Outcome outcome = run_program(command);
  if (outcome.status != 0) peer.trouble = outcome.out.empty() ? "tests/peers/venv.sh failed" : outcome.out;
  return peer;
}

}  // namespace halfulp::tests
