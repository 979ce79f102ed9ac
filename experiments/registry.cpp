// The experiments by name.
#include <halfulp/report/campaign.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/training/runs/model_report.hpp>

#include <stdexcept>
#include <vector>

namespace halfulp {

#define HALFULP_EXPERIMENT(name) Experiment name##_experiment();
#include <halfulp/experiments/experiments.def>
#undef HALFULP_EXPERIMENT
Experiment checkpoint_experiment();             // checkpoint/checkpoint.cpp
Experiment checkpoint_choice_experiment();      // checkpoint/choose.cpp
Experiment checkpoint_quantized_experiment();   // checkpoint/quantize.cpp
Experiment checkpoint_difference_experiment();  // checkpoint/difference.cpp

std::span<const Experiment> experiments() {
  static const std::vector<Experiment> all{
#define HALFULP_EXPERIMENT(name) name##_experiment(),
#include <halfulp/experiments/experiments.def>
#undef HALFULP_EXPERIMENT
  };
  return all;
}

std::span<const Experiment> kinds_of_report() {
  static const std::vector<Experiment> all = [] {
    std::vector<Experiment> kinds(experiments().begin(), experiments().end());
    kinds.push_back(trainings::model_experiment());
    kinds.push_back(checkpoint_experiment());
    kinds.push_back(checkpoint_choice_experiment());
    kinds.push_back(checkpoint_quantized_experiment());
    kinds.push_back(checkpoint_difference_experiment());
    kinds.push_back(campaign_experiment());
    return kinds;
  }();
  return all;
}

const Experiment& find_experiment(std::string_view name) {
  std::vector<std::string> names;
  for (const Experiment& experiment : experiments()) {
    if (experiment.name == name) return experiment;
    names.emplace_back(experiment.name);
  }
  throw std::invalid_argument(unknown_name("experiment", name, std::move(names)));
}

}  // namespace halfulp
