// The best mix of formats, held to a search through all of them.
#include "check.hpp"

#include <halfulp/experiments/checkpoint/mix.hpp>

#include <functional>
#include <limits>
#include <stdexcept>

namespace checkpoint_mix_test {

using namespace halfulp::checkpoint;
using Things = std::vector<std::vector<MixOption>>;

/// The least loss within the budget; infinite if nothing is.
double least_loss(const Things& things, double budget) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, double, double)> go = [&](std::size_t t, double cost, double loss) {
    if (cost > budget) return;
    if (t == things.size()) {
      best = std::min(best, loss);
      return;
    }
    for (const MixOption& o : things[t]) go(t + 1, cost + o.cost, loss + o.loss);
  };
  go(0, 0, 0);
  return best;
}

TEST(Mix, IsTheBestOfAll) {
  check::Random random{5};
  int better_than_hull = 0;
  for (int round = 0; round < 3000; ++round) {
    Things things(1 + random() % 7);
    double all = 0;
    for (auto& options : things) {
      options.resize(1 + random() % 5);
      // Small whole numbers, so that ties are common; in every third round losses that halve from bit to bit.
      for (MixOption& o : options) {
        o.cost = static_cast<double>(random() % 12);
        o.loss = round % 3 ? static_cast<double>(random() % 30)
                           : std::ldexp(1.0 + static_cast<double>(random() % 8), -2 * static_cast<int>(o.cost));
        all += o.cost;
      }
    }
    const double budget = std::floor(static_cast<double>(random() % 100) / 100 * all),
                 want = least_loss(things, budget);
    if (std::isinf(want)) {
      EXPECT_THROW(best_mix(things, budget), std::invalid_argument);
      continue;
    }
    const Mix mix = best_mix(things, budget);
    ASSERT_EQ(mix.chosen.size(), things.size());
    double cost = 0, loss = 0;
    for (std::size_t t = 0; t < things.size(); ++t)
      cost += things[t][mix.chosen[t]].cost, loss += things[t][mix.chosen[t]].loss;
    EXPECT_LE(cost, budget);
    EXPECT_EQ(cost, mix.cost);
    EXPECT_DOUBLE_EQ(loss, mix.loss);
    EXPECT_DOUBLE_EQ(mix.loss, want) << "round " << round;
    EXPECT_TRUE(mix.proven);
    const Mix hull = best_mix(things, budget, 0);  // no state may be open: the first choice, and a bound
    EXPECT_LE(hull.bound, want + 1e-9);
    EXPECT_GE(hull.loss, mix.loss - 1e-9);
    better_than_hull += hull.loss > mix.loss + 1e-9;
  }
  EXPECT_GT(better_than_hull, 40) << "rounds in which the search has something to find";
}

TEST(Mix, OfManyThingsIsProven) {
  check::Random random{9};
  Things things(600);
  double least = 0, most = 0;
  for (auto& options : things) {
    const double elements = static_cast<double>(1 + random() % 4096) * 64;
    for (const double bits : {4.25, 4.5, 6.25, 8.25, 16.0})
      options.push_back({std::floor(elements * bits / 8),
                         elements * std::exp2(-2 * bits) * (1 + static_cast<double>(random() % 100) / 100)});
    least += options.front().cost, most += options.back().cost;
  }
  for (const double part : {0.0, 0.07, 0.3, 0.9, 1.0}) {
    const Mix mix = best_mix(things, std::floor(least + part * (most - least)));
    EXPECT_TRUE(mix.proven) << part;
    EXPECT_LE(mix.cost, std::floor(least + part * (most - least)));
  }
  EXPECT_THROW(best_mix(things, least - 1), std::invalid_argument);
}

}  // namespace checkpoint_mix_test
