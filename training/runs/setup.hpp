// What the experiments that train networks share: parameters, data, and the settings of one training.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/training/trainer.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace halfulp::trainings {

/// What differs between experiments' declarations.
struct Defaults {
  std::string networks = "mlp", policies = "fp32";
  std::string seeds = "3";
};

/// Whether a network reads text; all others look at images.
bool is_text(const std::string& network);

/// The parameters of an experiment that trains: networks, policies, data, optimizer, and what is shown. Zeros and
/// "auto" are what the preset says of a network; the table `runs` has what came of it.
std::vector<Parameter> parameters(const Defaults& defaults);

/// The parameters by which accuracies and losses are judged, for experiments that compare them.
Parameter accuracy_margin();
Parameter loss_margin();

/// The data that networks need, as far as it is here.
class Data {
 public:
  /// Loads what `networks` need. Throws std::invalid_argument for folders and files of the user's that are not what
  /// they should be.
  Data(const Config& config, const std::vector<std::string>& networks);
  /// Why a network cannot be trained, in one line; empty if it can.
  const std::string& missing(const std::string& network) const;
  /// Examples of a network, `batch` at once, or as many as the configuration says; only images have `classes`.
  std::unique_ptr<training::Examples> examples(const Config& config, const std::string& network,
                                               const std::vector<int>& classes = {}, std::size_t batch = 0) const;
  /// The table `data`: what was read; of a text also `text_models`.
  void report(Report& report) const;
  /// Loss in nat of the bigram model that counts this text. Precondition: a network reads text, and missing() is empty.
  double bigram_loss() const { return counted_models(*text_).bigram; }
  std::size_t characters() const { return text_ ? text_->vocabulary().size() : 0; }
  /// Of everything that was read, for checkpoints.
  Json identity() const;
  /// Only of what this network reads.
  Json identity(const std::string& network) const;

 private:
  std::shared_ptr<const ImageSet> images_;
  std::optional<CharacterText> text_;
  std::string no_images_, no_text_, users_folder_, users_text_;
};

/// The settings of a network's training, with what the preset says of it. `steps_per_epoch` of its examples.
training::TrainerSettings settings(const Config& config, const std::string& network, std::uint64_t seed,
                                   const Data& data, std::uint64_t steps_per_epoch);

/// Examples at once, of a network.
std::size_t batch_size(const Config& config, const std::string& network);

/// The policies a list names, in its order. Throws std::invalid_argument for unknown ones and for two of a name.
std::vector<training::Policy> chosen_policies(const Config& config);

}  // namespace halfulp::trainings
