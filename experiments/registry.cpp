// The list of experiments: a new one is its file, its name in CMakeLists.txt, and its name here.
#include <halfulp/report/experiment.hpp>

#include <halfulp/support/spelling.hpp>

#include <stdexcept>
#include <vector>

namespace halfulp {

// Each in the file of its name.
Experiment underflow_experiment();
Experiment conversions_experiment();
Experiment swamping_experiment();
Experiment position_ids_experiment();
Experiment accumulation_experiment();
Experiment collectives_experiment();
Experiment attribution_experiment();
Experiment scaling_experiment();
Experiment training_experiment();
Experiment loss_scaling_experiment();
Experiment finetune_experiment();
Experiment optimizer_experiment();
Experiment operators_experiment();
Experiment quantization_experiment();
Experiment memory_experiment();
Experiment reproduce_experiment();

std::span<const Experiment> experiments() {
  static const std::vector<Experiment> all{
      underflow_experiment(),    conversions_experiment(),  swamping_experiment(),    position_ids_experiment(),
      accumulation_experiment(), collectives_experiment(),  attribution_experiment(), scaling_experiment(),
      training_experiment(),     loss_scaling_experiment(), finetune_experiment(),    optimizer_experiment(),
      operators_experiment(),    quantization_experiment(), memory_experiment(),      reproduce_experiment()};
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
