// What a search for a witness found, as a derivation and as a test vector.
#pragma once

#include <halfulp/emulation/witness/search.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace halfulp::cli {

std::string witness_text(const witness::Subject& a, const witness::Subject& b, const witness::Options& options,
                         const witness::Found& found);
nlohmann::ordered_json to_json(const witness::Subject& a, const witness::Subject& b, const witness::Options& options,
                               const witness::Found& found);

/// The line that `halfulp eval --check` or `halfulp mma --check` reads with what `subject` says expected, and the
/// command that takes it; empty for profiles, which no such command computes.
struct TestVector {
  std::string line, command;
};
TestVector test_vector(const witness::Subject& subject, const std::vector<std::uint64_t>& operands);

}  // namespace halfulp::cli
