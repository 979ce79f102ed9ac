// Loss scaling as PyTorch's torch.amp.GradScaler does it: which steps are skipped, how the scale moves, and what went wrong.
#pragma once

#include <halfulp/experiments/training/scaler_event.hpp>
#include <halfulp/hardware/json_file.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp::training {

/// The gradients of one optimizer's parameters, a span a parameter. A parameter that got no gradient is left out.
using Gradients = std::span<const std::span<float>>;

struct LossScalerSettings {
  double initial_scale = 65536;
  double growth_factor = 2;           ///< above 1
  double backoff_factor = 0.5;        ///< below 1
  std::int64_t growth_interval = 2000;  ///< updates in a row without an overflow before the scale grows
  bool enabled = true;                ///< false: scale() and step() do nothing of their own
  bool dynamic = true;                ///< false: update() leaves the scale alone, as update(initial_scale) would
  bool skip = true;                   ///< false: steps are taken whatever the gradients hold, as with a bare constant factor
};

/// A scale that never moves. `skip`: whether steps with non-finite gradients are left out.
LossScalerSettings static_scale(double scale, bool skip = true);

/// One iteration is: scale() each loss and go backward; for each optimizer unscale() where its gradients are looked at or clipped,
/// then step(); one update() at the end. Semantics, defaults and order of checks are those of torch.amp.GradScaler (torch 2.15):
/// - The scale is an fp32 number. Growth and backoff multiply in fp64 and round; growth to infinity is left out, backoff goes down
///   through the subnormals to zero. Until the first scale() it is the initial number itself.
/// - Gradients are multiplied by 1 / scale, a quotient in fp64 rounded to fp32: infinite for scales below 2^-128. What is looked at
///   for Inf and NaN are the gradients *before* that.
/// - An optimizer's step is left out if its own gradients hold one; the scale backs off if any optimizer's do.
/// NaN results are 0x7fc00000. Nothing here depends on threads or vectors. Calls in a wrong order throw std::logic_error.
class LossScaler {
 public:
  /// Throws std::invalid_argument with one line for factors on the wrong side of 1 and scales beyond fp32.
  explicit LossScaler(LossScalerSettings settings = {});

  const LossScalerSettings& settings() const { return settings_; }
  /// loss * scale, in fp32.
  float scale(float loss);
  /// What scale() multiplies by: the gradient that backward begins with.
  float factor();

  /// Once for an optimizer between two updates, and before its step.
  void unscale(int optimizer, Gradients gradients);
  /// Unscales where that was not done, then calls `take` unless the gradients held an Inf or a NaN. Returns whether it did.
  bool step(int optimizer, Gradients gradients, const std::function<void()>& take);
  /// Ends an iteration. Throws std::logic_error if no optimizer's gradients were looked at.
  void update();
  /// Ends an iteration with a scale of one's own; the growth tracker stays.
  void update(double new_scale);

  /// 1 if disabled.
  double current() const;
  /// Updates in a row without Inf or NaN.
  std::int32_t growth_tracker() const { return settings_.enabled ? tracker_ : 0; }
  /// Whether the optimizer's gradients were looked at since the last update, and held an Inf or a NaN.
  std::optional<bool> found_non_finite(int optimizer) const;
  std::int64_t updates() const { return updates_; }

  /// The five members of GradScaler's state_dict, and `history`, by which events go on as if nothing had happened; {} if disabled.
  Json state() const;
  /// Takes such a state, also one of PyTorch's without `history`. Throws std::invalid_argument with one line that begins with
  /// `name`; nothing has changed then. Does nothing if disabled.
  void restore(const Json& state, const std::string& name);

  /// What happened since the last call.
  std::vector<ScalerEvent> take_events();

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  struct Optimizer {
    Stage stage = Stage::ready;
    std::optional<NonFiniteGradients> found;  ///< nothing: no gradients were looked at
  };

  void require_scale(const char* what) const;
  void adapt(bool found);
  void end_iteration();
  ScalerEvent& report(ScalerEvent::Kind kind, double before, double after);

  LossScalerSettings settings_;
  std::optional<float> scale_;  ///< nothing before the first scale()
  std::int32_t tracker_ = 0;
  std::map<int, Optimizer> optimizers_;  ///< since the last update
  std::int64_t updates_ = 0;
  NonFiniteStreak streak_;
  std::vector<ScalerEvent> events_;
};

}  // namespace halfulp::training
