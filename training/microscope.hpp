// What happens to the numbers of a training.
//
// Spikes are values of a curve far above the usual ones just before.
#pragma once

#include <halfulp/report/trace.hpp>
#include <halfulp/support/json_fwd.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/training/policy_numerics.hpp>
#include <halfulp/training/rows.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace halfulp::training {

struct Spike {
  std::uint64_t step = 0;
  bool of_loss = false;  ///< else of the gradients' norm
  double value = 0, usual = 0;
};

/// Keeps running means with weight 1/20 for the newest value. After 20 steps a gradient norm above 4 times its mean is
/// a spike, and so is a loss above 1.25 times its mean plus 0.25. Spikes and values that are not finite do not change
/// the means.
class SpikeDetector {
 public:
  /// Takes the loss and the norm of step `step`; appends to `spikes`.
  void see(std::uint64_t step, double loss, double norm, std::vector<Spike>& spikes);
  /// The running mean of norms; 0 before the first.
  double usual_norm() const { return norm_.mean; }
  /// What a checkpoint keeps. `where` is the place of the state, for errors.
  Json state() const;
  void restore(const Json& state, const std::string& where);
  template <class V>
  friend void fields(V& v, SpikeDetector& d) {
    v("loss", d.loss_.mean);
    v("losses", d.loss_.count);
    v("norm", d.norm_.mean);
    v("norms", d.norm_.count);
  }

 private:
  struct Mean {
    double mean = 0;
    std::uint64_t count = 0;
    void take(double value);
  };
  Mean loss_, norm_;
};

/// How many spikes of the loss came with a spike of the gradients' norm, or at most `within` steps after one.
std::uint64_t announced(const std::vector<Spike>& spikes, std::uint64_t within);

// The microscope counts what roundings lost, interval by interval, and finds where the first Inf and NaN came from.

/// The first tensor of a run with an Inf, or with a NaN. Its inputs had none.
struct FirstNonFinite {
  std::uint64_t step = 0;
  OperatorKind kind = OperatorKind::linear;
  std::string name;
  Role role = Role::activation;
};

/// Checks every tensor for Inf and NaN, and counts what roundings did in the chosen steps.
class Microscope : public Observer {
 public:
  bool counts() const override { return counting_ && !paused_; }
  void before(const Site& site, Role role, const Storage& storage, std::span<const float> values) override;
  void see(const Sighting& sighting) override;

  /// Called with every sighting of a counted step. May be empty.
  std::function<void(const Sighting&)> spy;
  /// Records some of the conversions of counted steps, for backends. Null: records none.
  void sample_into(Trace* trace) { trace_ = trace; }

  /// `count`: whether this step's roundings and updates are counted.
  void begin_step(std::uint64_t step, bool count);
  /// While paused, as during a test, it looks at nothing.
  void pause(bool paused) { paused_ = paused; }
  /// Takes the reports of a counted step of the optimizer, one per parameter.
  void see_updates(const std::vector<TrainedParameter<float>*>& parameters, const std::vector<UpdateReport>& reports);

  const std::optional<FirstNonFinite>& first_infinite() const { return first_infinite_; }
  const std::optional<FirstNonFinite>& first_nan() const { return first_nan_; }

  /// What was counted of one tensor in one role since the last take_rows().
  struct Row {
    OperatorKind kind = OperatorKind::linear;
    std::string name;
    Role role = Role::activation;
    bool operand = false;
    std::uint64_t elements = 0, zeros = 0, underflowed = 0, overflowed = 0, subnormal = 0, nan = 0;
  };
  struct UpdateRow {
    std::string name;
    UpdateReport sum;  ///< counts added up; norms of the last counted step
  };
  std::vector<Row> take_rows();
  std::vector<UpdateRow> take_updates();

  /// What a checkpoint keeps: only between intervals, when no rows are waiting. `where` is the place of the state, for
  /// errors.
  Json state() const;
  void restore(const Json& state, const std::string& where);
  template <class V>
  friend void fields(V& v, Microscope& m) {
    v("first_infinite", m.first_infinite_);
    v("first_nan", m.first_nan_);
  }

 private:
  std::uint64_t step_ = 0;
  bool counting_ = false, paused_ = false;
  std::optional<FirstNonFinite> first_infinite_, first_nan_;
  Trace* trace_ = nullptr;
  Rows<std::tuple<OperatorKind, std::string, Role, bool>, Row> rows_;
  std::vector<UpdateRow> updates_;
};

}  // namespace halfulp::training
