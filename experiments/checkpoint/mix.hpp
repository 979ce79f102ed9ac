// One option for each of many things, so that the costs keep a budget and the losses add up to the least: the
// multiple-choice knapsack problem.
#pragma once

#include <cstddef>
#include <vector>

namespace halfulp::checkpoint {

/// What one option costs and what it loses; both from 0 on and finite.
struct MixOption {
  double cost = 0, loss = 0;
};

struct Mix {
  std::vector<std::size_t> chosen;  ///< an option of each thing
  double cost = 0, loss = 0;        ///< sums, from the first thing on
  double bound = 0;  ///< no choice within the budget loses less: equal to `loss` if this one is proven best
  bool proven = false;
};

/// The choice of least loss among those that cost at most `budget`. Each thing has at least one option.
///
/// A Lagrange multiplier for the cost (the slope at which the budget falls on the lower convex hulls of all things
/// together; Sinha & Zoltners 1979, "The multiple-choice knapsack problem", Operations Research 27(3)) gives a bound
/// and a first choice. What remains open between the two is searched by dynamic programming over undominated sums,
/// which proves the best choice unless more than `most_states` are open at once: then it gives the best that was found,
/// and the bound.
///
/// Throws std::invalid_argument, without a message, if even the cheapest choice costs more.
Mix best_mix(const std::vector<std::vector<MixOption>>& things, double budget, std::size_t most_states = 1 << 18);

}  // namespace halfulp::checkpoint
