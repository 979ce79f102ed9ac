#include <halfulp/experiments/checkpoint/mix.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace halfulp::checkpoint {
namespace {

using Options = std::vector<MixOption>;

/// A step down the lower convex hull of a thing: from its last option to one that costs more and loses less.
struct Step {
  std::size_t thing, option;
  double cost, gain;
  double slope() const { return gain / cost; }
};

/// The cheapest option; of equal costs the one that loses least.
std::size_t cheapest(const Options& options) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < options.size(); ++i)
    if (options[i].cost < options[best].cost ||
        (options[i].cost == options[best].cost && options[i].loss < options[best].loss))
      best = i;
  return best;
}

/// The steps of one thing, from the cheapest option on, by falling slope.
void add_steps(const Options& options, std::size_t thing, std::vector<Step>& steps) {
  for (std::size_t at = cheapest(options);;) {
    std::size_t next = at;
    double steepest = 0;
    for (std::size_t i = 0; i < options.size(); ++i) {
      const double cost = options[i].cost - options[at].cost, gain = options[at].loss - options[i].loss;
      if (cost <= 0 || gain <= 0) continue;
      const double slope = gain / cost;
      if (slope > steepest || (slope == steepest && options[i].cost > options[next].cost)) steepest = slope, next = i;
    }
    if (next == at) return;
    steps.push_back({thing, next, options[next].cost - options[at].cost, options[at].loss - options[next].loss});
    at = next;
  }
}

/// The search between the bound and the first choice.
class Search {
 public:
  Search(const std::vector<Options>& things, double budget, std::size_t most_states)
      : things_(things), budget_(budget), most_states_(most_states) {}

  Mix run() {
    first_choice();
    bound();
    improve();
    best_.bound = best_.proven ? best_.loss : std::min(bound_, best_.loss);
    return best_;
  }

 private:
  /// Sums in one order, so that equal choices have equal sums.
  void take(const std::vector<std::size_t>& chosen) {
    double cost = 0, loss = 0;
    for (std::size_t t = 0; t < things_.size(); ++t)
      cost += things_[t][chosen[t]].cost, loss += things_[t][chosen[t]].loss;
    if (!best_.chosen.empty() && (cost > budget_ || loss >= best_.loss)) return;
    best_.chosen = chosen, best_.cost = cost, best_.loss = loss;
  }

  /// Down the hulls by the steepest steps that still fit.
  void first_choice() {
    std::vector<Step> steps;
    std::vector<std::size_t> chosen;
    double cost = 0;
    for (std::size_t t = 0; t < things_.size(); ++t) {
      chosen.push_back(cheapest(things_[t]));
      cost += things_[t][chosen[t]].cost;
      add_steps(things_[t], t, steps);
    }
    if (cost > budget_) throw std::invalid_argument("");
    std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.slope() > b.slope(); });
    std::vector<bool> stopped(things_.size());  // a step that is not taken ends its thing's way
    for (const Step& step : steps) {
      if (stopped[step.thing]) continue;
      if (cost + step.cost > budget_) {
        if (slope_ == 0) slope_ = step.slope();
        stopped[step.thing] = true;
        continue;
      }
      cost += step.cost, chosen[step.thing] = step.option;
    }
    take(chosen);
  }

  double priced(std::size_t thing, std::size_t option) const {
    return things_[thing][option].loss + slope_ * things_[thing][option].cost;
  }

  /// The Lagrangian bound at the slope where the budget ends, and how far each option is above it.
  void bound() {
    bound_ = -slope_ * budget_;
    for (std::size_t t = 0; t < things_.size(); ++t) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t o = 0; o < things_[t].size(); ++o) least = std::min(least, priced(t, o));
      least_.push_back(least);
      bound_ += least;
    }
  }

  struct State {
    double cost, priced;  ///< how far the options of open things are above their least prices
    std::uint32_t before, option;
  };

  /// Options that may be part of a better choice; what has one only is decided.
  void improve() {
    const double gap = best_.loss - bound_ + 1e-12 * best_.loss;  // sums in another order must not lose the best
    std::vector<std::size_t> chosen(things_.size()), open;
    std::vector<std::vector<std::size_t>> left(things_.size());
    double fixed = 0;
    for (std::size_t t = 0; t < things_.size(); ++t) {
      for (std::size_t o = 0; o < things_[t].size(); ++o)
        if (priced(t, o) - least_[t] <= gap) left[t].push_back(o);
      chosen[t] = left[t].front();
      if (left[t].size() == 1) fixed += things_[t][chosen[t]].cost;
      else open.push_back(t);
    }
    // What the open things cost at least, from each one on.
    std::vector<double> cheapest_left(open.size() + 1, 0);
    for (std::size_t i = open.size(); i-- > 0;) {
      double least = std::numeric_limits<double>::infinity();
      for (const std::size_t o : left[open[i]]) least = std::min(least, things_[open[i]][o].cost);
      cheapest_left[i] = cheapest_left[i + 1] + least;
    }
    std::vector<std::vector<State>> levels{{{fixed, 0, 0, 0}}};
    for (std::size_t i = 0; i < open.size(); ++i) {
      std::vector<State> next;
      for (std::uint32_t s = 0; s < levels[i].size(); ++s)
        for (const std::size_t o : left[open[i]]) {
          const State& from = levels[i][s];
          const State to{from.cost + things_[open[i]][o].cost, from.priced + priced(open[i], o) - least_[open[i]], s,
                         static_cast<std::uint32_t>(o)};
          if (to.cost + cheapest_left[i + 1] <= budget_ && to.priced <= gap) next.push_back(to);
        }
      // Of two sums the one that costs more must lose less. A loss is the price without its cost.
      const auto loss = [&](const State& s) { return s.priced - slope_ * s.cost; };
      std::sort(next.begin(), next.end(),
                [&](const State& a, const State& b) { return a.cost != b.cost ? a.cost < b.cost : loss(a) < loss(b); });
      double least = std::numeric_limits<double>::infinity();
      std::erase_if(next, [&](const State& s) {
        if (loss(s) >= least) return true;
        least = loss(s);
        return false;
      });
      if (next.size() > most_states_) return;
      levels.push_back(std::move(next));
    }
    for (std::uint32_t s = 0; s < levels.back().size(); ++s) {
      std::uint32_t at = s;
      for (std::size_t i = open.size(); i-- > 0;) {
        chosen[open[i]] = levels[i + 1][at].option;
        at = levels[i + 1][at].before;
      }
      take(chosen);
    }
    best_.proven = true;
  }

  const std::vector<Options>& things_;
  double budget_;
  std::size_t most_states_;
  double slope_ = 0, bound_ = 0;
  std::vector<double> least_;  ///< the least price of each thing
  Mix best_;
};

}  // namespace

Mix best_mix(const std::vector<std::vector<MixOption>>& things, double budget, std::size_t most_states) {
  return Search(things, budget, most_states).run();
}

}  // namespace halfulp::checkpoint
