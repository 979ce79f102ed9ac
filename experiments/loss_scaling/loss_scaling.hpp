// Gradients of a training, and the loss scales under which a format keeps all of them.
#pragma once

#include <halfulp/formats/format.hpp>
#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp::trainings {

/// What became of gradients other than zero when they were scaled and rounded to nearest even.
struct Recovery {
  std::uint64_t lost = 0, subnormal = 0, overflowed = 0;  ///< zero; subnormal; Inf, NaN or clipped
  bool operator==(const Recovery&) const = default;
};

/// The scales 2^k, from <= k <= to, under which no gradient becomes zero and none overflows.
struct ScaleRange {
  int from = 0, to = 0;
  bool empty() const { return from > to; }
  bool operator==(const ScaleRange&) const = default;
};

/// The gradients of one tensor, or of several. Scaled ones are doubles, so that scaling itself loses nothing. Formats
/// have a zero and at most 8 exponent bits.
class GradientSample {
 public:
  void add(std::span<const float> gradients);
  void add(const GradientSample& other);
  /// To be called once, after the last add() and before anything below.
  void sort();

  std::uint64_t elements() const { return zeros_ + not_finite_ + magnitudes_.size(); }
  std::uint64_t zeros() const { return zeros_; }
  std::uint64_t not_finite() const { return not_finite_; }
  std::uint64_t non_zero() const { return magnitudes_.size(); }  ///< and finite
  /// Magnitudes other than zero in [from, to).
  std::uint64_t between(double from, double to) const;
  /// floor(log2 |g|) of the smallest and the largest gradient other than zero. Precondition: non_zero() > 0.
  int smallest_exponent() const;
  int largest_exponent() const;

  /// Under a scale of 2^k, |k| <= 300: by rounding every gradient.
  Recovery by_rounding(const FloatFormat& format, int k) const;
  /// The same by comparing magnitudes with the format's limits (NearestEvenLimits): no rounding is done.
  Recovery by_limits(const FloatFormat& format, int k) const;
  /// By rounding every gradient under scale after scale. Precondition of both: non_zero() > 0.
  ScaleRange range_by_rounding(const FloatFormat& format) const;
  /// Only from exponent and significand of the smallest and the largest gradient.
  ScaleRange range_by_limits(const FloatFormat& format) const;

 private:
  std::uint64_t zeros_ = 0, not_finite_ = 0;
  std::vector<float> magnitudes_;
};

// What loss scaling has to work with: the gradients of a training in FP32, and what each format makes of them at each
// scale.

/// Gradients of one tensor in the counted steps of a training.
struct TensorGradients {
  std::string tensor, kind;  ///< "fc1.weight", "weight"; "fc1", "activation"
  GradientSample sample = {};
};

/// Those of a network. `all`: of all tensors together.
struct NetworkGradients {
  std::string network;
  std::vector<TensorGradients> tensors = {};
  GradientSample weights = {}, activations = {}, all = {};
  std::vector<std::uint64_t> steps = {};
};

/// Trains in FP32 with loss scale 1 for `gradient_steps` and keeps the gradients of the first step and of the last one
/// of each of four intervals. Saves them too if the configuration has `save_gradients`.
NetworkGradients collect_gradients(const Config& config, const std::string& network, const Data& data);

/// The settings of that training.
training::TrainerSettings gradient_settings(const Config& config, const std::string& network, const Data& data);

/// The tables `gradients`, `ranges` and `recovery`, and what follows from the formats. `networks` has those that could
/// be trained.
void report_gradients(const Config& config, const std::vector<NetworkGradients>& networks, const Data& data,
                      Report& report);

// The trainings of loss_scaling: one network and policy under every way to scale the loss.

enum class Scaling : std::uint8_t {
  reference,  ///< the policy `fp32`
  fixed,      ///< a scale that never moves
  end,       ///< the same, at an end of the range that recovers every gradient, for as long as gradients were looked at
  dynamic,   ///< a GradScaler
  too_fast,  ///< a GradScaler and a learning rate that breaks the network
  poisoned   ///< a GradScaler and a NaN in a gradient in each of the first steps
};

/// One training.
struct ScaledRun {
  Scaling scaling = Scaling::reference;
  std::string base = {};       ///< the policy whose loss scaling was replaced
  int k = 0;                   ///< the first scale is 2^k
  bool skip = true;            ///< of fixed scales
  std::int64_t interval = 0;   ///< of growth, in updates
  std::string end = {};        ///< which end
  std::uint64_t poisoned = 0;  ///< steps with a NaN
  training::Policy policy = {};
  Job job = {};
  training::TrainingRecord record = {};
};

/// Updates until a scale of 2^16 has become zero by halving: 16 to 1, 149 to the smallest fp32 number, and one.
inline constexpr std::uint64_t updates_to_zero = 16 + 149 + 1;

/// All trainings of a network under a policy; `reference` with a network's first. Jobs point to the policies: the deque
/// must stay where it is.
void plan(const Config& config, const training::Policy& policy, const NetworkGradients& gradients, const Data& data,
          const training::Examples& examples, std::deque<ScaledRun>& runs);

/// The scale after each of a training's updates.
std::vector<double> course_of(const ScaledRun& run);

/// The scale that the second half of a training had for most updates, the smaller of equals; 0 for a training without
/// updates.
double settled_scale(const ScaledRun& run);

/// Shares of all gradients, of weights and activations, in counted steps: zero by rounding, overflowed.
struct GradientShares {
  double lost = 0, overflowed = 0;
};
GradientShares shares_of(const training::TrainingRecord& record);

/// When a scale came down to 1, to the subnormals, to zero: the number of updates that lowered it.
struct Descent {
  std::optional<std::uint64_t> to_one = {}, to_subnormal = {}, to_zero = {};
  std::optional<std::uint64_t> zero_at = {};    ///< the step that made it zero
  std::optional<std::uint64_t> unnoticed = {};  ///< the step that was taken although unscaling made NaN
  std::string cause;                            ///< of the collapse, in words
};
Descent descent_of(const training::TrainingRecord& record);

// What loss_scaling claims besides the ranges of scales.

/// The scaler by itself, without any training: defaults, how far it is down to 1, to the subnormals and to zero, and
/// what zero does.
void claim_scaler(Report& report);

/// Trainings of one network and policy. `margin`: how far below FP32 an accuracy may be.
void claim_loss_scaling(const std::vector<ScaledRun>& runs, const NetworkGradients& gradients, double margin,
                        Report& report);

/// The same of a network that could not be trained.
void skip_loss_scaling(const std::string& network, const std::string& policy, const std::string& why, Report& report);

// The tables of loss_scaling that no other training has: static, ends, dynamic, scale_course, collapse.

class ScalingTables {
 public:
  /// Declares them.
  explicit ScalingTables(Report& report);
  /// A row of `ends`, `dynamic` or `collapse`, whichever the run belongs to; the course of its scale too if it is the
  /// first seed's.
  void add(const ScaledRun& run, const NetworkGradients& gradients, bool first_seed);
  /// A static scale over all its seeds; `fp32`: accuracy of the reference.
  void add_static(const ScaledRun& first, const Spread& spread, double fp32);

 private:
  void add_course(const ScaledRun& run);
  Table &static_, &ends_, &dynamic_, &course_, &collapse_;
};

}  // namespace halfulp::trainings
