// Loss scaling: gradients are unscaled, Inf and NaN are found, the scale moves.
#pragma once

#include <halfulp/support/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp::training {

/// Whether any value is Inf or NaN.
bool has_non_finite(std::span<const float> values);

/// How many values are Inf or NaN, and where the first one is.
struct NonFiniteGradients {
  std::uint64_t infinite = 0, nan = 0;
  std::uint64_t tensor = 0, element = 0;  ///< of the first one
  std::uint64_t count() const { return infinite + nan; }
  /// Adds those of a later tensor.
  void add(const NonFiniteGradients& other);
};

struct Unscaled {
  NonFiniteGradients before;    ///< among the values given
  NonFiniteGradients appeared;  ///< finite before, not finite times the factor
};

/// values *= factor in fp32, round to nearest even; NaN results are 0x7fc00000. `tensor` is the place that is reported.
Unscaled unscale_in_place(std::span<float> values, float factor, std::uint64_t tensor);

// What a loss scaler reports: how the scale moved, which steps were skipped, and why.

/// A row of updates that all found Inf or NaN.
struct NonFiniteStreak {
  std::int64_t updates = 0;
  std::int64_t with_nan = 0;  ///< how many of these found a NaN, against which no scale may help
  std::int64_t begun = 0;     ///< the number of the first of these updates
  int optimizer = 0;          ///< whose gradients were the first
  NonFiniteGradients first;   ///< what those held
};

struct ScalerEvent {
  enum class Kind : std::uint8_t {
    grew,            ///< the scale was multiplied by the growth factor
    growth_refused,  ///< it stayed, because the product is infinite
    backed_off,      ///< it was multiplied by the backoff factor
    collapsed,       ///< it was multiplied by the backoff factor and became zero; `streak` has the cause. From now on
                     ///< gradients are 0 * Inf = NaN, and nobody notices
    set,             ///< update() was given a new one
    skipped,         ///< an optimizer's step was skipped
    unnoticed        ///< unscaling made finite gradients Inf or NaN; no check sees that, and the step is taken
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

/// The gradients of one optimizer's parameters, one span per parameter that has a gradient.
using Gradients = std::span<const std::span<float>>;

struct LossScalerSettings {
  double initial_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< below 1
  std::int64_t growth_interval = 2000;  ///< updates in a row without an overflow before the scale grows
  bool enabled = true;                  ///< false: scale() and step() change nothing
  bool dynamic = true;                  ///< false: update() keeps the scale, as update(initial_scale) would
  bool skip = true;  ///< false: steps are taken whatever the gradients hold, as with a plain constant factor
};

/// A scale that never moves. `skip`: whether steps with non-finite gradients are skipped.
LossScalerSettings static_scale(double scale, bool skip = true);

/// In one iteration, call scale() for each loss and go backward; for each optimizer call unscale() if you look at its
/// gradients or clip them, then step(); call update() once at the end. Semantics, defaults and order of checks are
/// those of torch.amp.GradScaler (torch 2.15):
/// - The scale is an fp32 number. Growth and backoff multiply in fp64 and round. The scale does not grow to infinity;
/// it
///   backs off through the subnormals to zero. Until the first scale() it is the initial number, unrounded.
/// - Gradients are multiplied by 1 / scale, a quotient in fp64 rounded to fp32: infinite for scales below 2^-128. The
///   search for Inf and NaN looks at the gradients *before* that.
/// - An optimizer's step is skipped if its own gradients hold Inf or NaN; the scale backs off if any optimizer's do.
/// NaN results are 0x7fc00000. Nothing here depends on threads or vectors. Calls in a wrong order throw
/// std::logic_error.
class LossScaler {
 public:
  /// Throws std::invalid_argument with one line for factors on the wrong side of 1 and scales beyond fp32.
  explicit LossScaler(LossScalerSettings settings = {});

  const LossScalerSettings& settings() const { return settings_; }
  /// loss * scale, in fp32.
  float scale(float loss);
  /// The factor of scale(), which is the gradient that the backward pass begins with.
  float factor();

  /// Precondition: once per optimizer between two updates, before its step.
  void unscale(int optimizer, Gradients gradients);
  /// Unscales unless that was done, then calls `take` unless the gradients held an Inf or a NaN. Returns whether it
  /// called it.
  bool step(int optimizer, Gradients gradients, const std::function<void()>& take);
  /// Ends an iteration. Throws std::logic_error if no optimizer's gradients were looked at.
  void update();
  /// Ends an iteration with the caller's scale; the growth tracker stays.
  void update(double new_scale);

  /// 1 if disabled.
  double current() const;
  /// Updates in a row without Inf or NaN.
  std::int32_t growth_tracker() const { return settings_.enabled ? tracker_ : 0; }
  /// Whether the optimizer's gradients held an Inf or a NaN; nothing if they were not checked since the last update.
  std::optional<bool> found_non_finite(int optimizer) const;
  std::int64_t updates() const { return updates_; }

  /// The five members of GradScaler's state_dict, and `history`, which lets events go on without a break; {} if
  /// disabled.
  Json state() const;
  /// Takes such a state, or one of PyTorch's without `history`. Throws std::invalid_argument with one line that begins
  /// with `name`, and then changes nothing. Does nothing if disabled.
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

/// The square root of the sum of squares, in fp64, each tensor's by fixed_order_sum: the same bits everywhere. No
/// square overflows.
double gradient_norm(Gradients gradients);

/// Multiplies all gradients by min(1, most / (norm + 1e-6)), computed in fp32 as torch.nn.utils.clip_grad_norm_ does.
/// An infinite norm gives 0 (and NaN from Inf), a NaN gives NaN everywhere. torch's norm is in fp32, where squares
/// overflow from 1.8e19 on. The caller chooses which gradients share a norm: all, or only those of the embedding.
Clipping clip_gradients(Gradients gradients, float most);

}  // namespace halfulp::training
