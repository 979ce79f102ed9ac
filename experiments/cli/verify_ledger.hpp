// The ledger: what was verified, where, and the digest of the results, so that any machine can recompute a part of it.
#pragma once

#include <halfulp/experiments/cli/verification.hpp>

namespace halfulp::cli {

/// A ledger file's entries; none where there is no such file. Throws std::invalid_argument with one line for a file that
/// is not a ledger.
Json read_ledger(const std::string& path);

/// Puts an entry into a ledger file, in place of the one on the same task, reference, inputs and machine if there is one.
/// Returns one line for each entry on the same task and inputs whose digest differs: one of the two is wrong.
std::vector<std::string> enter(const std::string& path, const Json& entry);

/// Recomputes some of an entry's chunks, `most` at most, spread evenly. Returns one line for each that differs.
/// Throws std::invalid_argument for an entry that cannot be read.
std::vector<std::string> recheck(const Json& entry, std::size_t most);

}  // namespace halfulp::cli
