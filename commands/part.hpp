// One process's part of pieces that many share.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace halfulp::cli {

/// Of pieces numbered from 0 every N-th, from the I-th on.
struct Part {
  std::uint64_t which = 1, of = 1;  ///< I from 1 to N, and N
  bool has(std::uint64_t piece) const { return piece % of + 1 == which; }
};

/// Adds --part.
CLI::Option* add_part_option(CLI::App& app, std::optional<std::string>& text);

/// "3/7", or "auto": what the environment says of this process (Slurm, Open MPI, PMI). Throws std::invalid_argument in
/// one line for anything else, and where the environment says nothing.
Part part_named(const std::string& text);

}  // namespace halfulp::cli
