// Many trainings at once.
#pragma once

#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/trainer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace halfulp::trainings {

/// One training among others.
struct Job {
  std::string label;    ///< of its checkpoint and the progress bar: "mlp-amp-fp16-1"
  std::string variant;  ///< of tables: the policy's name, or what an experiment varies
  const training::Policy* policy = nullptr;
  training::TrainerSettings settings;
  std::size_t batch = 0;                            ///< examples a step; 0: the configuration's
  std::size_t parameters = 0, train = 0, test = 0;  ///< for tables: Examples' sizes
  Json start = {};  ///< what the functions below make of it: first values, planted gradients; for checkpoints, stores
  std::vector<int> classes = {};  ///< of images; empty: all
  /// As soon as the trainer is there, whether it begins or goes on: to set what it calls. May be empty.
  std::function<void(training::Trainer&)> attend = {};
  /// Before the first step, unless a checkpoint was read: to give other first values. May be empty.
  std::function<void(training::Trainer&)> prepare = {};
  /// After the last step: what else is asked of the trained network. With a store it is kept beside the record.
  struct Keepsake {
    Json what = {};                                     ///< for stores: what it is and depends on
    std::function<Json(training::Trainer&)> make = {};  ///< may be empty
    std::function<void(const Json& made, const std::string& where)> use = {};  ///< is handed it, here or from a store
  };
  Keepsake keepsake = {};
};

/// What the result of a job depends on: for trials of it, and of what is computed with its examples.
Json identity_of(const Job& job, const Config& config, const Data& data);

/// The training of a network under a policy, as the configuration has it.
Job make_job(const Config& config, const std::string& network, const training::Policy& policy,
             const std::string& variant, std::uint64_t seed, const Data& data, const training::Examples& examples);

/// Trains all of them, as many at once as there are threads, and returns their records in order. With `checkpoints` in
/// the configuration each goes on from where it was saved; each is a trial (report/trials.hpp). Of each policy one
/// records some of its conversions for backends. Progress goes from `from` to `to`. Throws std::invalid_argument for
/// checkpoints that are another run's, and Interrupted.
std::vector<training::TrainingRecord> train(const std::vector<Job>& jobs, const Data& data, const Config& config,
                                            Run& run, double from = 0, double to = 1);

/// Where nobody reads the records (Run::only_operands): adds to the run's trace what `train` would, and trains only
/// what that needs: no training that records nothing, and none further than the trace has room for what it rounds,
/// which its first interval shows.
void record_operands(const std::vector<Job>& jobs, const Data& data, const Config& config, Run& run);

// Gradients of a training's steps into a folder that `underflow` reads.

/// From now on the trainer's counted steps are saved: gradients of weights as "fc1.weight.gradient", of activations as
/// "fc1.activation-gradient" (a second of the same layer: "fc1.activation-gradient-2"). Replaces the trainer's
/// after_backward and the microscope's spy. Throws std::invalid_argument for folders that SavedGradients refuses.
void keep_gradients(training::Trainer& trainer, const std::string& folder, Json about);

// Layers that policies name must be there: a typing error would otherwise change nothing, and nobody would know.

/// Throws std::invalid_argument, in one line with the layers there are, for the first pattern of a policy's rules that
/// means no layer of any network that is trained under this policy. Takes one step of each network, if any policy names
/// layers at all.
void require_layers(const std::vector<Job>& jobs, const Data& data, const Config& config);

}  // namespace halfulp::trainings
