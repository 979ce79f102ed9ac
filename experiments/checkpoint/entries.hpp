// The tensors of a checkpoint that the user asked for, looked at in every format: what `halfulp inspect` and `halfulp
// choose` begin with.
#pragma once

#include <halfulp/experiments/checkpoint/shared.hpp>
#include <halfulp/experiments/checkpoint/survey.hpp>
#include <halfulp/report/experiment.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace halfulp::checkpoint {

/// The parameters checkpoint, formats, tensors, overflow and roles.
std::vector<Parameter> entry_parameters(const std::string& formats);

/// A tensor with its place in the model.
struct Entry {
  Survey survey;
  std::string layer, role;
  const std::string& name() const { return survey.tensor->name; }
};

class Entries {
 public:
  /// Opens the checkpoint and looks at nothing yet. Throws std::invalid_argument in one line for what the parameters
  /// and ModelTensors refuse, and where no tensor is left.
  Entries(const Config& config, Run& run);
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  /// Surveys every tensor, several at once, and reports progress with the time left. `outliers` as for survey().
  void look(double outliers);

  const ModelTensors& model() const { return model_; }
  const std::vector<ChosenFormat>& formats() const { return formats_; }
  const std::vector<Entry>& all() const { return entries_; }
  /// What is no tensor of numbers.
  const std::vector<const StoredTensor*>& others() const { return others_; }
  std::uint64_t elements() const { return elements_; }  ///< Of all entries.
  /// Whether nothing of the checkpoint was left out.
  bool are_whole() const;

 private:
  const Config& config_;
  ModelTensors model_;
  TimedProgress progress_;
  std::vector<ChosenFormat> formats_;
  std::vector<Entry> entries_;
  std::vector<const StoredTensor*> others_;
  std::uint64_t elements_ = 0;
};

}  // namespace halfulp::checkpoint
