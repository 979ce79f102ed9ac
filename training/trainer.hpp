// One training: a network, its examples, a policy, an optimizer, a loss scaler; step by step, with what is to be told
// of it.
#pragma once

#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/examples.hpp>
#include <halfulp/training/layers/initialisation.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/loss_scaler.hpp>
#include <halfulp/training/microscope.hpp>
#include <halfulp/training/networks.hpp>
#include <halfulp/training/policy.hpp>
#include <halfulp/training/policy_numerics.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace halfulp::training {

struct TrainerSettings {
  std::string network = "mlp";
  NetworkOptions options = {};
  InitialisationChoice initialisation = {};
  OptimizerSettings optimizer = {};
  std::uint64_t steps = 1000;
  std::uint64_t warmup = 0;  ///< steps in which the learning rate grows linearly to its full size
  bool cosine = false;       ///< after that it falls as a half cosine, which would be zero one step after the last
  std::uint64_t interval =
      100;  ///< steps of a point of the curve; in the first step of all and its last one roundings are counted
  std::uint64_t test_every = 0;  ///< intervals between tests; 0: at the end alone
  double clip_norm = 0;          ///< most norm of gradients; 0: any
  bool clip_embedding = false;   ///< of the embedding's gradient alone
  double embedding_shrink = 1;   ///< factor of the embedding's gradient (Zeng et al. 2022, GLM-130B: 0.1)
  double skip_abnormal =
      0;  ///< a step is left out if the gradients' norm is so many times its running mean; 0: none is
  std::uint64_t seed = 1;
};

struct TestResult {
  double loss = 0, accuracy = 0;  ///< mean over labels; share of labels that the largest logit names
};

/// One point of a curve: an interval of steps.
struct CurvePoint {
  std::uint64_t step = 0;    ///< steps done at its end
  double loss = 0;           ///< mean over its steps
  double gradient_norm = 0;  ///< mean over steps where it is finite; unscaled
  double largest_norm = 0;
  double scale = 1;            ///< of the loss, at its end
  std::uint64_t skipped = 0;   ///< steps left out since gradients held Inf or NaN
  std::uint64_t abnormal = 0;  ///< steps left out since their norm was abnormal
  std::uint64_t clipped = 0;
  std::optional<TestResult> test = {};
  std::vector<Microscope::Row> tensors = {};        ///< of its last step (and the first of all)
  std::vector<Microscope::UpdateRow> updates = {};  ///< likewise
};

/// What a training leaves behind.
struct TrainingRecord {
  std::vector<CurvePoint> curve;
  std::vector<ScalerEvent> events;
  std::vector<Spike> spikes;
  std::optional<FirstNonFinite> first_infinite = {}, first_nan = {};
  std::optional<std::uint64_t> diverged =
      {};                 ///< the step after which a parameter was Inf or NaN: nothing follows then
  TestResult final = {};  ///< NaN loss and accuracy 0 if it diverged
  std::uint64_t skipped() const;
};

/// A network on the test examples, with these numerics.
TestResult test_network(Numerics<float>& numerics, Module<float>& network, const Examples& examples);

/// What a network has learned: its parameters and running means, by name.
using NetworkValues = std::map<std::string, std::vector<float>>;

class Trainer {
 public:
  /// Policy and examples outlive this. Throws std::invalid_argument for names and numbers that networks and optimizers
  /// refuse.
  Trainer(const TrainerSettings& settings, const Policy& policy, Examples& examples);
  ~Trainer();

  /// One interval, or what is left. False when there is nothing to do: the steps are done, or a parameter is no number
  /// any more. Throws Interrupted after Ctrl-C.
  bool run_interval();
  /// run_interval() to the end, then a test.
  void run();
  TestResult test() { return test(examples_); }
  /// With the test examples of others: some of the classes alone.
  TestResult test(const Examples& examples);

  /// Parameters as the network uses them, and running means.
  NetworkValues values() const;
  /// Before the first step: begins with these instead of first values of its own. Parameters are rounded as the policy
  /// stores them, master weights begin with the values as they are. Throws std::invalid_argument for values of another
  /// network, std::logic_error after a step.
  void start_from(const NetworkValues& values);

  const TrainerSettings& settings() const { return settings_; }
  std::uint64_t steps() const { return step_; }
  const TrainingRecord& record() const { return record_; }
  Sequential<float>& network() { return *network_; }
  const std::vector<Parameter<float>*>& parameters() const { return parameters_; }
  /// Called between backward pass and update in every step, with gradients as they are before unscaling. May be empty.
  std::function<void(Trainer&)> after_backward;
  /// Called after every step. May be empty.
  std::function<void(Trainer&)> after_step;
  Microscope& microscope() { return microscope_; }
  /// The operators and layers at which the policy was asked so far: all of the network's after a step.
  std::vector<std::pair<OperatorKind, std::string>> sites() const { return numerics_.sites(); }
  /// What gradients are multiplied by now.
  double scale() const { return scaler_ ? scaler_->current() : 1; }
  double last_loss() const { return last_loss_; }
  /// Of the last batch: examples, or characters of text.
  std::size_t rows() const { return batch_.labels.size(); }

  /// All that a run needs to go on with the same bits; between intervals.
  Checkpoint checkpoint() const;
  /// The identity of a checkpoint of this run.
  Json identity() const;
  /// Throws std::invalid_argument in one line for what checkpoint() does not write; this trainer is of no use then.
  void restore(const Checkpoint& checkpoint);

 private:
  void step(bool count);
  void update(bool count);
  void shrink_embedding();
  bool clip(std::vector<std::span<float>>& gradients, double& norm);
  bool parameters_are_finite() const;
  double learning_rate() const;

  TrainerSettings settings_;
  const Policy& policy_;
  Examples& examples_;
  std::unique_ptr<Sequential<float>> network_;
  CrossEntropy<float> loss_;
  std::vector<Parameter<float>*> parameters_;
  Microscope microscope_;
  PolicyNumerics numerics_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;
  SpikeDetector spikes_;
  Batch batch_;
  std::uint64_t step_ = 0;
  double last_loss_ = 0;
  struct Interval;
  std::unique_ptr<Interval> interval_;
  TrainingRecord record_;
};

// A training's settings and record as JSON, for checkpoints: what is read back is the same to the last bit.

Json to_json(const TrainerSettings& settings);
Json to_json(const TrainingRecord& record);
/// Throws std::invalid_argument in one line that begins with the place, in the document that `where` names, of the
/// first value that to_json does not write there.
TrainingRecord record_from_json(const Json& json, const std::string& where);

}  // namespace halfulp::training
