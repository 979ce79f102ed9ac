// What `underflow` claims: limits of the formats, constants of training, and shares predicted in closed form.
#pragma once

#include <halfulp/experiments/underflow/underflow_sweep.hpp>

#include <optional>

namespace halfulp {

/// The best loss scale of one format on one source, by the criterion the table states.
struct BestScale {
  std::optional<int> best;   ///< no overflow, then fewest zeros, then fewest subnormals, then the smallest scale
  int lowest_equal = 0, highest_equal = 0;  ///< scales without overflow and with as few zeros as `best`
  std::optional<int> highest;  ///< the largest scale of the sweep without overflow
};

/// `cases` are those of one format under one rounding, scales ascending.
BestScale best_scale(const std::vector<const Case*>& cases);

/// The table `limits` and its claims, found by bisection of the emulated conversion.
void report_limits(const std::vector<FormatChoice>& formats, Run& run);

/// Published constants of the formats, Adam's constants and the GradScaler: independent of the configuration.
void report_constants(Run& run);

/// Claims on one source; `mode` is the rounding the loss scale was swept under.
void claim_sweep(const GradientSource& source, const SweepResult& result, RoundingMode mode, Run& run);

/// Micikevicius et al., figures on real networks, beside the user's file (nullptr: there is none).
void claim_published_shares(const SweepResult* input, Run& run);

/// What a folder of gradients holds of each kind, none where there is no tensor of it.
struct FolderShares {
  std::optional<InputSummary> weights = {}, activations = {};
  bool listed = false;  ///< whether the folder says which they are
  std::string about = {};  ///< network, policy, seed
};

/// The same figures beside those of a folder: pass or differs.
void claim_published_shares(const FolderShares& folder, Run& run);

}  // namespace halfulp
