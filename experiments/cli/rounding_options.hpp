// The options of `eval` and `explain` that decide how a result is rounded.
#pragma once

#include <halfulp/emulation/rounding.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

namespace halfulp::cli {

struct RoundingOptions {
  std::string round = "nearest-even", overflow = "ieee", tininess = "after", nan = "canonical", int_overflow = "saturate", variant = "truncate";
  bool flush_inputs = false, flush_outputs = false, exact = false;
  int random_bits = Rounding{}.random_bits;
  std::uint64_t seed = 1;

  /// Adds --round, --overflow, --flush-inputs, --flush-outputs, --tininess, --nan, --stochastic-variant, --random-bits and --seed.
  void add_to(CLI::App& app);
  /// Adds --int-overflow and --exact, which matter to integers only.
  void add_integer_options_to(CLI::App& app);
  /// What was asked for. Throws std::invalid_argument naming the nearest accepted word.
  Rounding rounding() const;
};

}  // namespace halfulp::cli
