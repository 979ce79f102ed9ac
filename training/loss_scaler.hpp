// Gradients times a factor, and which of them are Inf or NaN.
#pragma once

#include <halfulp/support/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp::training {

/// How many values are not finite, and where the first one is.
struct NonFiniteGradients {
  std::uint64_t infinite = 0, nan = 0;
  std::uint64_t tensor = 0, element = 0;  ///< of the first one
  std::uint64_t count() const { return infinite + nan; }
  /// Those of another tensor, which comes behind.
  void add(const NonFiniteGradients& other);
};

struct Unscaled {
  NonFiniteGradients before;    ///< among the values given
  NonFiniteGradients appeared;  ///< finite before, not finite times the factor
};

/// values *= factor in fp32, round to nearest even; NaN results are 0x7fc00000. `tensor` is the place that is reported.
Unscaled unscale_in_place(std::span<float> values, float factor, std::uint64_t tensor);

// What a loss scaler has to tell: how the scale moved, which steps were left out, and why.

/// Updates in a row that found Inf or NaN.
struct NonFiniteStreak {
  std::int64_t updates = 0;
  std::int64_t with_nan = 0;  ///< of these, how many found a NaN: no scale helps against what is NaN at any scale
  std::int64_t begun = 0;     ///< the number of the first of these updates
  int optimizer = 0;          ///< whose gradients were the first
  NonFiniteGradients first;   ///< what they held
};

struct ScalerEvent {
  enum class Kind : std::uint8_t {
    grew,            ///< the scale was multiplied by the growth factor
    growth_refused,  ///< it stayed, since the product is infinite
    backed_off,      ///< it was multiplied by the backoff factor
    collapsed,       ///< the same, and became zero: `streak` has the cause. From here on gradients are 0 * Inf = NaN,
                     ///< unnoticed
    set,             ///< update() was given a new one
    skipped,         ///< an optimizer's step was left out
    unnoticed  ///< gradients that were finite became Inf or NaN by unscaling, which no check sees: the step is taken
  };
  Kind kind = Kind::grew;
  std::int64_t update = 0;       ///< updates before this event
  double before = 0, after = 0;  ///< the scale
  int optimizer = -1;            ///< of skipped and unnoticed
  NonFiniteGradients found;  ///< of skipped: what the scaled gradients held; of unnoticed: what the unscaled ones do
  NonFiniteStreak streak;    ///< of collapsed
};

/// "grew", "growth-refused", "backed-off", "collapsed", "set", "skipped", "unnoticed".
const char* name_of(ScalerEvent::Kind kind);

/// One line for people: "scale 1.4e-45 -> 0: 166 updates in a row found Inf or NaN, ...".
std::string description(const ScalerEvent& event);

// Loss scaling as PyTorch's torch.amp.GradScaler does it: which steps are skipped, how the scale moves, and what went
// wrong.

/// The gradients of one optimizer's parameters, a span a parameter. A parameter that got no gradient is left out.
using Gradients = std::span<const std::span<float>>;

struct LossScalerSettings {
  double initial_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< below 1
  std::int64_t growth_interval = 2000;  ///< updates in a row without an overflow before the scale grows
  bool enabled = true;                  ///< false: scale() and step() do nothing of their own
  bool dynamic = true;                  ///< false: update() leaves the scale alone, as update(initial_scale) would
  bool skip = true;  ///< false: steps are taken whatever the gradients hold, as with a bare constant factor
};

/// A scale that never moves. `skip`: whether steps with non-finite gradients are left out.
LossScalerSettings static_scale(double scale, bool skip = true);

/// One iteration is: scale() each loss and go backward; for each optimizer unscale() where its gradients are looked at
/// or clipped, then step(); one update() at the end. Semantics, defaults and order of checks are those of
/// torch.amp.GradScaler (torch 2.15):
/// - The scale is an fp32 number. Growth and backoff multiply in fp64 and round; growth to infinity is left out,
/// backoff goes down
///   through the subnormals to zero. Until the first scale() it is the initial number itself.
/// - Gradients are multiplied by 1 / scale, a quotient in fp64 rounded to fp32: infinite for scales below 2^-128. What
/// is looked at
///   for Inf and NaN are the gradients *before* that.
/// - An optimizer's step is left out if its own gradients hold one; the scale backs off if any optimizer's do.
/// NaN results are 0x7fc00000. Nothing here depends on threads or vectors. Calls in a wrong order throw
/// std::logic_error.
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
  /// Unscales where that was not done, then calls `take` unless the gradients held an Inf or a NaN. Returns whether it
  /// did.
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

  /// The five members of GradScaler's state_dict, and `history`, by which events go on as if nothing had happened; {}
  /// if disabled.
  Json state() const;
  /// Takes such a state, also one of PyTorch's without `history`. Throws std::invalid_argument with one line that
  /// begins with `name`; nothing has changed then. Does nothing if disabled.
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

// Clipping of gradients by their common norm.

struct Clipping {
  double norm = 0;        ///< before clipping: sum and square root in fp64
  float coefficient = 1;  ///< what the gradients were multiplied by; below 1 where they were clipped
};

/// The square root of the sum of squares, in fp64, element after element and tensor after tensor: the same bits
/// everywhere, and no square overflows.
double gradient_norm(Gradients gradients);

/// Multiplies all gradients by min(1, most / (norm + 1e-6)), computed in fp32 as torch.nn.utils.clip_grad_norm_ does:
/// an infinite norm gives 0 (and NaN from Inf), a NaN gives NaN everywhere. torch's norm is in fp32, where squares
/// overflow from 1.8e19 on. Which gradients share a norm is the caller's choice: all, or the embedding's alone.
Clipping clip_gradients(Gradients gradients, float most);

}  // namespace halfulp::training
