// Small steps: which ways of keeping narrow weights still take them. `training` and `finetune` ask.
#pragma once

#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace halfulp::trainings {

/// The parameters of the table `learning_rates`, with the defaults of learning_rates and weight_formats.
std::vector<Parameter> learning_rate_parameters(const std::string& rates, const std::string& formats);

/// How weights are kept between steps.
enum class Keeping : std::uint8_t {
  plain,       ///< in the format, rounded to nearest
  master,      ///< in FP32; the format is a copy
  kahan,       ///< in the format, with Kahan's compensation beside it
  stochastic,  ///< in the format, rounded stochastically
};
inline constexpr std::array<Named<Keeping>, 4> keepings{{{"plain", Keeping::plain},
                                                         {"master", Keeping::master},
                                                         {"kahan", Keeping::kahan},
                                                         {"stochastic", Keeping::stochastic}}};

/// Weights in narrow formats, kept in four ways, under several learning rates: what is small against a weight is lost
/// in plain ones. Table `learning_rates` and the claims on it.
class LearningRates {
 public:
  /// A training of a network under a policy, of that name, with the seed of that index.
  using MakeJob = std::function<Job(const std::string& network, const training::Policy&, const std::string& name,
                                    std::size_t seed)>;
  explicit LearningRates(const Config& config);
  /// The trainings, behind those of the policies. What they point to lives here.
  void plan(const Data& data, std::vector<Job>& jobs, const MakeJob& make);
  /// `records` are those of the jobs, in their order.
  void report(const Data& data, const std::vector<Job>& jobs, const std::vector<training::TrainingRecord>& records,
              Tables& tables, Report& report);

 private:
  /// Network, weights' format, all else's format, how weights are kept, learning rate. FP32's own are plain.
  using Key = std::tuple<std::string, std::string, std::string, Keeping, double>;
  struct Variant {
    std::string format, rest;
    Keeping keeping;
    training::Policy policy;
  };
  void claim(const std::string& network, const std::string& missing, Report& report) const;
  void add(const std::string& format, const std::string& rest, Keeping keeping);
  const Spread* find(const std::string& network, const std::string& format, const std::string& rest, Keeping keeping,
                     double lr) const;

  const Config& config_;
  std::vector<std::string> networks_;
  std::vector<double> rates_;
  std::deque<Variant> variants_;
  std::size_t first_job_ = 0;
  std::vector<Key> keys_;  ///< of the jobs, a key for each seed
  std::map<Key, Spread> spreads_;
  std::map<Key, double> swamped_;
};

}  // namespace halfulp::trainings
