// A weight that drifts: the same swamped update again and again, without repair and with each, and the course it takes.
#pragma once

#include <halfulp/data/statistics.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/support/work.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace halfulp::swamping {

inline constexpr std::uint64_t stochastic_stream = 1 << 20;  ///< and one more for each run

/// The same swamped update again and again: u = fl(lr * g), near 0.8 of the largest lost one times 2^-binades_below.
struct Drift {
  FormatChoice choice;
  std::uint64_t one = 0, update = 0;
  std::int64_t steps = 0;
  double u = 0, way = 0;  ///< steps * u
  double exact = 1;       ///< the weight after all steps from 1: 1 + way, which of fp64 a double cannot always hold
};

/// Steps end where the exact weight has reached 1.5, so that the binade and with it the threshold stays.
inline Drift make_drift(const FormatChoice& choice, const Config& config) {
  const FloatFormat& f = choice.format;
  Arithmetic in(f, {});
  Drift drift{choice};
  drift.one = in.encode(1);
  const double target = 0.8 * f.epsilon() / 2 /
                        FloatFormat::power_of_two(static_cast<int>(config.integer("binades_below")));
  drift.update = in.mul(in.encode(config.real("lr")), in.encode(target / config.real("lr")));
  drift.u = f.value(drift.update);
  drift.steps = config.integer("repair_steps");
  if (drift.u > 0 && drift.u * static_cast<double>(drift.steps) > 0.5)
    drift.steps = static_cast<std::int64_t>(0.5 / drift.u);
  drift.way = static_cast<double>(drift.steps) * drift.u;
  drift.exact = 1 + drift.way;
  return drift;
}

/// Steps whose weights the table `course` shows.
inline constexpr std::int64_t shown_steps = 32;

/// What the weight is after each of the first steps.
class Course {
 public:
  explicit Course(Run& run)
      : table_(run.report.table("course", "The weight after each of the first steps",
                                {{"format", "", "Format of weight and update."},
                                 {"method", "",
                                  "As in `repairs`; stochastic-seed: stochastic rounding with the first seed alone; "
                                  "exact: without rounding."},
                                 {"step", "step", "Steps done."},
                                 {"weight", "1", "The weight then, from 1 on; of stochastic the mean over seeds."},
                                 {"low", "1", "Of stochastic: the mean minus the standard deviation over seeds."},
                                 {"high", "1", "Of stochastic: the mean plus the standard deviation over seeds."}})) {}
  void add(const Drift& drift, std::string_view method, std::int64_t step, double weight) {
    if (step <= shown_steps) table_.row({drift.choice.name, method, step, number(weight), Json(), Json()});
  }
  void add(const Drift& drift, std::string_view method, std::int64_t step, const std::vector<double>& weights) {
    const SampleMoments of_seeds = sample_moments(weights);
    const double mean = of_seeds.mean, deviation = std::sqrt(of_seeds.variance);
    table_.row({drift.choice.name, method, step, number(mean), number(mean - deviation), number(mean + deviation)});
  }

 private:
  Table& table_;
};

/// Calls after(step, weight) at the beginning and after each step. So do the next ones.
template <class After>
std::uint64_t plain_sum(const Drift& drift, Arithmetic& in, After&& after) {
  std::uint64_t w = drift.one;
  after(0, w);
  for (std::int64_t i = 0; i < drift.steps; ++i) after(i + 1, w = in.add(w, drift.update));
  return w;
}

/// Kahan 1965: what a sum lost is subtracted from the next update. Everything is kept in the format itself.
template <class After>
std::uint64_t kahan_sum(const Drift& drift, Arithmetic& in, After&& after) {
  std::uint64_t w = drift.one, c = in.format().zero();
  after(0, w);
  for (std::int64_t i = 0; i < drift.steps; ++i) {
    const std::uint64_t y = in.sub(drift.update, c), t = in.add(w, y);
    c = in.sub(in.sub(t, w), y);
    after(i + 1, w = t);
  }
  return w;
}

/// The weight of run r after stochastically rounded steps.
template <class After>
std::uint64_t stochastic_sum(const Drift& drift, int random_bits, std::size_t r, std::uint64_t seed, After&& after) {
  Rounding rounding;
  rounding.mode = RoundingMode::stochastic;
  rounding.random_bits = random_bits;
  Arithmetic in(drift.choice.format, rounding);
  std::uint64_t w = drift.one;
  after(0, w);
  for (std::int64_t i = 0; i < drift.steps; ++i)
    after(i + 1,
          w = in.add(w, drift.update, rounding_bits(seed, stochastic_stream + r, static_cast<std::uint64_t>(i))));
  return w;
}

/// The weights of `runs` seeds.
inline std::vector<double> stochastic_sums(const Drift& drift, int random_bits, std::size_t runs, std::uint64_t seed) {
  return parallel_map(runs, [&](std::size_t r) {
    return drift.choice.format.value(stochastic_sum(drift, random_bits, r, seed, [](std::int64_t, std::uint64_t) {}));
  });
}

/// Shows the weight after each of the first steps: the mean over `runs` seeds with its standard deviation, then the
/// weight of the first seed.
inline void show_stochastic(Drift drift, int random_bits, std::size_t runs, std::uint64_t seed, Course& course) {
  drift.steps = std::min(drift.steps, shown_steps);
  const auto courses = parallel_map(runs, [&](std::size_t r) {
    std::vector<double> weights;
    stochastic_sum(drift, random_bits, r, seed,
                   [&](std::int64_t, std::uint64_t w) { weights.push_back(drift.choice.format.value(w)); });
    return weights;
  });
  for (std::int64_t step = 0; step <= drift.steps; ++step) {
    std::vector<double> weights;
    for (const auto& one : courses) weights.push_back(one[static_cast<std::size_t>(step)]);
    course.add(drift, "stochastic", step, weights);
  }
  for (std::int64_t step = 0; step <= drift.steps; ++step)
    course.add(drift, "stochastic-seed", step, courses.front()[static_cast<std::size_t>(step)]);
}

}  // namespace halfulp::swamping
