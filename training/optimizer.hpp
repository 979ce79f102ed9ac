// What one step did to one parameter.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/training/layers/module.hpp>
#include <halfulp/training/storage.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace halfulp::training {

class Checkpoint;

/// Counts of elements, and norms. The update is what exact arithmetic would add to a weight, rounded to fp32; with
/// Kahan summation, before the compensation.
struct UpdateReport {
  bool taken = false;  ///< there was a gradient; otherwise everything below is 0 except the weights' norm
  std::uint64_t elements = 0;
  std::uint64_t with_update = 0;  ///< the update is not zero
  std::uint64_t swamped =
      0;  ///< of these: no part was kept, neither in the stored weight nor in its master or compensation
  std::uint64_t changed = 0;  ///< the parameter changed its value
  std::uint64_t zero_gradients = 0;
  std::uint64_t second_underflowed = 0;  ///< the mean of squares is stored as zero, and the gradient is not zero
  std::uint64_t zero_denominators = 0;   ///< of adam's update
  std::uint64_t non_finite = 0;          ///< parameters that are Inf or NaN after the step
  double weight_norm = 0, gradient_norm = 0, update_norm = 0;  ///< Euclidean, in fp64, by fixed_order_sum
};

/// The tensors of a report. Empty spans are absent.
struct UpdateTrace {
  std::span<const float> parameter_before, parameter, gradient, update, second, denominators;
  /// What updates are added to: parameters or master weights; and their compensation.
  std::span<const float> target_before, target, compensation_before, compensation;
};
UpdateReport report_of(const UpdateTrace& trace);

/// The square root of the sum of squares.
double norm_of(std::span<const float> values);

// Optimizers, and the places where rounding enters an update.

enum class OptimizerKind : std::uint8_t {
  sgd,    ///< with or without momentum
  adam,   ///< weight decay is added to the gradient (L2)
  adamw,  ///< weight decay shrinks the weight (Loshchilov & Hutter 2019)
};
inline constexpr std::array<Named<OptimizerKind>, 3> optimizer_kinds{
    {{"sgd", OptimizerKind::sgd}, {"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}}};
constexpr std::string_view name_of(OptimizerKind kind) { return name_in(optimizer_kinds, kind); }
/// Throws std::invalid_argument that names the nearest ones.
inline OptimizerKind parse_optimizer(std::string_view name) { return value_named(optimizer_kinds, "optimizer", name); }

/// Names and meanings of torch.optim's SGD, Adam and AdamW; the defaults are Adam's.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adam;
  double lr = 1e-3;
  double momentum = 0;                            ///< sgd
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  ///< adam, adamw
  double weight_decay = 0;
  bool nesterov = false;  ///< sgd with momentum
  bool operator==(const OptimizerSettings&) const = default;
};

/// The formats in which values are stored between two steps, and what is rounded within one. The default is fp32
/// everywhere.
struct UpdatePrecision {
  Storage weights = {};         ///< parameters
  bool master_weights = false;  ///< updates change an fp32 copy; parameters are the copy, rounded to `weights`
  /// Kahan summation of updates into weights (Zamirai et al. 2021, "Revisiting BFloat16 Training", algorithm 1): a
  /// tensor stored as `weights` keeps what a sum lost, and the next update subtracts it. The decay of adamw is then
  /// part of the update.
  bool kahan = false;
  Storage first = {};   ///< the momentum of sgd, the mean of gradients of adam (exp_avg)
  Storage second = {};  ///< the mean of squared gradients (exp_avg_sq)
  /// Every operation on tensors except the last one, which writes the weights, computes in fp32 and rounds its result
  /// to this, as PyTorch's loops over tensors do for half parameters. Scalars keep their fp32 value. Absent: each
  /// operation rounds to fp32, and results are rounded when they are stored, as in fused kernels.
  std::optional<Stage> arithmetic = {};
  /// The settings, 1 - beta, the square root of the second bias correction and the step size are rounded to the format
  /// of `arithmetic` first. There 0.999 may be 1 and 1e-8 zero. Bias corrections use the unrounded betas, because
  /// programs compute them on the host.
  bool rounded_constants = false;
  bool operator==(const UpdatePrecision&) const = default;
};

/// Changes parameters by their gradients. Semantics and order of operations are those of torch.optim (2.15) with
/// foreach=False: scalars in double as in Python, operations on tensors in fp32, products rounded before they are
/// added. The bits are those of PyTorch without FMA (ATEN_CPU_CAPABILITY=default), with two exceptions: square roots in
/// fp32, where MKL may be an ulp off, and `add` of half tensors, which on the CPU also rounds scalars and alpha's
/// product to the format. GPUs do not, nor does this. Results do not depend on the number of threads.
class Optimizer {
 public:
  /// Rounds the parameters to `precision.weights`; master weights keep the unrounded values. The parameters outlive
  /// this. Random numbers of stochastic rounding are a function of the seed, the parameter's name, the rounded tensor
  /// and the step. Throws std::invalid_argument in one line for settings that PyTorch refuses, for combinations without
  /// meaning and for two parameters of one name.
  Optimizer(std::vector<TrainedParameter<float>*> parameters, const OptimizerSettings& settings,
            const UpdatePrecision& precision = {}, std::uint64_t seed = 0);

  /// Starts over with the values of the parameters now, as the constructor did: they are rounded, master weights take
  /// the unrounded values, and steps and all other states are forgotten.
  void begin();

  /// Parameters without a gradient, and their states, do not change. `reports` becomes one report per parameter.
  void step(std::vector<UpdateReport>* reports = nullptr);

  const OptimizerSettings& settings() const { return settings_; }
  const UpdatePrecision& precision() const { return precision_; }
  /// Throws std::invalid_argument for a number that cannot be a learning rate.
  void set_lr(double lr);
  std::uint64_t steps() const { return steps_; }

  /// Adds arrays named "optimizer.PARAMETER.master" (compensation, first, second) and the member "optimizer" of the
  /// state. The caller saves the parameters.
  void save(Checkpoint& checkpoint) const;
  /// Throws std::invalid_argument in one line for a checkpoint of other parameters or settings.
  void restore(const Checkpoint& checkpoint);

 private:
  /// The state of one parameter; tensors that are not needed are empty.
  struct Slot {
    TrainedParameter<float>* parameter;
    std::uint64_t steps = 0;  ///< with a gradient
    std::vector<float> master = {}, compensation = {}, first = {}, second = {};
  };
  template <class Slots, class Visit>
  static void visit_arrays(Slots& slots, Visit&& visit);
  RandomStream random(const Slot& slot, std::string_view what) const;
  void store_weights(Slot& slot);
  void step(Slot& slot, UpdateReport* report);
  void add_compensated(Slot& slot);

  OptimizerSettings settings_;
  UpdatePrecision precision_;
  std::uint64_t seed_, steps_ = 0;
  std::vector<Slot> slots_;
  std::vector<float> update_, before_, denominators_, compensated_;  ///< scratch memory of one parameter
};

}  // namespace halfulp::training
