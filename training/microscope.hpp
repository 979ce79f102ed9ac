// Spikes of a curve: values far above what was usual just before.
#pragma once

#include <halfulp/report/trace.hpp>
#include <halfulp/support/json_fwd.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/training/policy_numerics.hpp>

#include <cstdint>
#include <functional>
#include <map>
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

/// Running means with weight 1/20 for the newest value. A gradient norm above 4 times the mean is a spike, and a loss
/// above the mean by more than a quarter of it and a quarter; either after 20 steps. Values of spikes and those that
/// are not finite leave the means alone.
class SpikeDetector {
 public:
  /// What step `step` had; appends to `spikes`.
  void see(std::uint64_t step, double loss, double norm, std::vector<Spike>& spikes);
  /// The running mean of norms; 0 before there is one.
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

/// How many spikes of the loss had one of the gradients' norm at most `within` steps before them, or with them.
std::uint64_t announced(const std::vector<Spike>& spikes, std::uint64_t within);

// What happens to the numbers of a training: who lost what, interval by interval, and where the first Inf and NaN came
// from.

/// Whether there is an Inf or a NaN.
bool has_non_finite(std::span<const float> values);

/// The first tensor of a run with an Inf, or with a NaN: its inputs had none.
struct FirstNonFinite {
  std::uint64_t step = 0;
  OperatorKind kind = OperatorKind::linear;
  std::string name;
  Role role = Role::activation;
};

/// Looks at every tensor for Inf and NaN, and counts what roundings did in the steps that are asked for.
class Microscope : public Observer {
 public:
  bool counts() const override { return counting_ && !paused_; }
  void before(const Storage& storage, std::span<const float> values) override;
  void see(const Sighting& sighting) override;

  /// Sees, besides, what this sees in counted steps. May be empty.
  std::function<void(const Sighting&)> spy;
  /// From now on some of the conversions in counted steps are recorded, for backends. Null: none.
  void sample_into(Trace* trace) { trace_ = trace; }

  /// `count`: whether this step's roundings and updates are counted.
  void begin_step(std::uint64_t step, bool count);
  /// Between steps, while a test runs, nothing is looked at.
  void pause(bool paused) { paused_ = paused; }
  /// The reports of an optimizer's step that was counted, a parameter each.
  void see_updates(const std::vector<Parameter<float>*>& parameters, const std::vector<UpdateReport>& reports);

  const std::optional<FirstNonFinite>& first_infinite() const { return first_infinite_; }
  const std::optional<FirstNonFinite>& first_nan() const { return first_nan_; }

  /// One tensor in one role, what was counted since the last take_rows().
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
  std::map<std::tuple<OperatorKind, std::string, Role, bool>, std::size_t> places_;
  std::vector<Row> rows_;
  std::vector<UpdateRow> updates_;
};

}  // namespace halfulp::training
