// One training, step by step: a network learns from examples under a policy, with an optimizer and a loss scaler. It
// records what happened.
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
  bool cosine = false;       ///< then the rate falls as a half cosine that reaches zero one step after the last
  std::uint64_t interval =
      100;  ///< steps per point of the curve; roundings are counted in the first step of all and in its last one
  std::uint64_t test_every = 0;  ///< intervals between tests; 0: only at the end
  double clip_norm = 0;          ///< largest norm of gradients; 0: no limit
  bool clip_embedding = false;   ///< limit only the gradient of the embedding
  double embedding_shrink = 1;   ///< factor of the embedding's gradient (Zeng et al. 2022, GLM-130B: 0.1)
  double skip_abnormal = 0;      ///< skip a step if the gradients' norm is this many times its running mean; 0: never
  std::uint64_t seed = 1;
};

/// Of one example of a test: an image, or a window of text.
struct ExampleResult {
  double right = 0;  ///< share of its labels that have the largest logit
  double loss = 0;   ///< mean over its labels
};

struct TestResult {
  double loss = 0, accuracy = 0;             ///< mean over labels, of the logits in double; share of labels with the
                                             ///< largest logit
  std::vector<ExampleResult> examples = {};  ///< in the order of the test
};

/// One point of a curve: an interval of steps.
struct CurvePoint {
  std::uint64_t step = 0;    ///< steps done at its end
  double loss = 0;           ///< mean over its steps
  double gradient_norm = 0;  ///< mean over steps where it is finite; unscaled
  double largest_norm = 0;
  double scale = 1;            ///< of the loss, at its end
  std::uint64_t skipped = 0;   ///< steps skipped because gradients held Inf or NaN
  std::uint64_t abnormal = 0;  ///< steps skipped because their norm was abnormal
  std::uint64_t clipped = 0;
  std::optional<TestResult> test = {};
  std::vector<Microscope::Row> tensors = {};        ///< of its last step (and the first of all)
  std::vector<Microscope::UpdateRow> updates = {};  ///< likewise
};

/// The Euclidean norm of a parameter before the first step.
struct StartNorm {
  std::string parameter;
  double norm = 0;
};

/// What a training leaves behind.
struct TrainingRecord {
  std::vector<StartNorm> start;
  std::vector<CurvePoint> curve;
  std::vector<ScalerEvent> events;
  std::vector<Spike> spikes;
  std::optional<FirstNonFinite> first_infinite = {}, first_nan = {};
  std::optional<std::uint64_t> diverged = {};  ///< the step that made a parameter Inf or NaN; the training ends there
  TestResult final = {};                       ///< NaN loss, accuracy 0 and no examples if it diverged
  std::uint64_t skipped() const;
};

/// Tests a network with these numerics.
TestResult test_network(Numerics<float>& numerics, Module<float>& network, const Examples& examples);

/// What a network has learned: parameters and running means, by name.
using NetworkValues = std::map<std::string, std::vector<float>>;

class Trainer {
 public:
  /// Policy and examples outlive this. Throws std::invalid_argument for names and numbers that networks and optimizers
  /// refuse.
  Trainer(const TrainerSettings& settings, const Policy& policy, Examples& examples);
  ~Trainer();

  /// Trains for one interval, or for what is left of it. Returns false if there is nothing to do: all steps are done,
  /// or a parameter is Inf or NaN. Throws Interrupted after Ctrl-C.
  bool run_interval();
  /// Calls run_interval() until the end.
  void run();
  TestResult test() { return test(examples_); }
  /// Tests with other examples, for instance only some of the classes.
  TestResult test(const Examples& examples);

  /// The parameters as the network uses them, and the running means.
  NetworkValues values() const;
  /// Starts from these values instead of random ones. Parameters are rounded as the policy stores them; master weights
  /// take the values unrounded. Throws std::invalid_argument for values of another
  /// network, std::logic_error after a step.
  void start_from(const NetworkValues& values);

  const TrainerSettings& settings() const { return settings_; }
  std::uint64_t steps() const { return step_; }
  const TrainingRecord& record() const { return record_; }
  Sequential<float>& network() { return *network_; }
  const std::vector<TrainedParameter<float>*>& parameters() const { return parameters_; }
  /// Called in every step after the backward pass, before gradients are unscaled. May be empty.
  std::function<void(Trainer&)> after_backward;
  /// Called after every step. May be empty.
  std::function<void(Trainer&)> after_step;
  Microscope& microscope() { return microscope_; }
  /// The operators and layers that have asked the policy so far; after one step these are all.
  std::vector<std::pair<OperatorKind, std::string>> sites() const { return numerics_.sites(); }
  /// The factor of gradients now.
  double scale() const { return scaler_ ? scaler_->current() : 1; }
  double last_loss() const { return last_loss_; }
  /// Rows of the last batch: examples, or characters of text.
  std::size_t rows() const { return batch_.labels.size(); }

  /// All that a run needs to go on with the same bits. Precondition: between intervals.
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
  std::vector<TrainedParameter<float>*> parameters_;
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

// Settings, records and values as JSON, for checkpoints and stores. They are read back to the last bit, but for the
// payloads of NaNs.

Json to_json(const TrainerSettings& settings);
/// Of a run with these: Trainer::identity().
Json identity_of(const TrainerSettings& settings, const Policy& policy);
Json to_json(const TrainingRecord& record);
Json to_json(const NetworkValues& values);
/// These throw std::invalid_argument in one line that begins with the place, in the document that `where` names, of the
/// first value that to_json does not write there.
TrainingRecord record_from_json(const Json& json, const std::string& where);
NetworkValues values_from_json(const Json& json, const std::string& where);

}  // namespace halfulp::training
