// The state file of `halfulp verify`: what is done already, so that a run can be interrupted and taken up again.
#pragma once

#include <halfulp/experiments/cli/verification.hpp>

namespace halfulp::cli {

/// Fills in what a state file says of these verifications, which are one run's. A file that is not there says nothing.
/// Throws std::invalid_argument with one line, and changes nothing, for a file that is no state file, is damaged, or
/// belongs to another run, a newer version or another build.
void load_state(const std::string& path, std::vector<Verification>& run);

/// Writes it, whole or not at all.
void save_state(const std::string& path, const std::vector<Verification>& run);

}  // namespace halfulp::cli
