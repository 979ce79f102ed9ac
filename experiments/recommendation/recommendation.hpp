// The parts of the experiment "recommendation": which tensors of a training may be narrow, what each narrow format
// costs, and the plans that follow.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/training/runs/runs.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::recommendation {

/// What of a training is stored in a format of its own.
enum class Part : std::uint8_t {
  weights,
  first_moments,
  second_moments,
  activation,
  gradient_of_activation,
  gradient_of_weight
};
inline constexpr std::array<std::string_view, 6> part_names{
    "weights", "first-moments", "second-moments", "activation", "gradient-of-activation", "gradient-of-weight"};
constexpr std::string_view name_of(Part part) { return part_names[static_cast<std::size_t>(part)]; }
/// Whether it is stored from step to step, in one format for the whole network.
constexpr bool is_state(Part part) { return part <= Part::second_moments; }

/// A tensor as rows, along which blocks lie.
struct Extent {
  std::uint64_t rows = 1, columns = 0;
};

/// Tensors that share a format: those of one operator of one layer in one role, or a state of all parameters.
struct Place {
  Part part;
  training::OperatorKind kind = training::OperatorKind::optimizer;  ///< of no state
  std::string layer = {};                                           ///< empty: of a state
  std::uint64_t elements = 0;                                       ///< in one step
  std::vector<Extent> tensors = {};  ///< of these elements; empty: one row, which plain formats do not tell apart
};

/// Where loss scaling begins if no format asks for less: GradScaler's default.
inline constexpr double largest_loss_scale = 65536;

/// A format that a place could have.
struct Option {
  training::Storage storage = {};
  double bytes = 0;
  double error = 0;  ///< relative error of a step's update that it causes alone; infinite: the training fails
  double loss_scale = largest_loss_scale;  ///< the largest power of two at which no gradient overflows
};

/// A place, and its options: the first is FP32, with error 0.
struct Subject {
  Place place;
  std::vector<Option> options;
};

/// An option for each subject.
using Plan = std::vector<std::size_t>;

/// Bits of an element, with its share of the scale of a whole block.
double bits_of(const training::Storage& storage);
/// Bytes of a place's tensors: codes packed, and every block's scale.
double bytes_of(const training::Storage& storage, const Place& place);
double bytes_of(const std::vector<Subject>& subjects, const Plan& plan);
/// Square root of the sum of squares: errors of different places are taken for independent.
double error_of(const std::vector<Subject>& subjects, const Plan& plan);
/// Bytes that a policy needs for these places. Master weights and compensations count with the weights.
double bytes_of(const std::vector<Subject>& subjects, const training::Policy& policy);

/// From FP32 everywhere to the narrowest, one place a step: each step saves the most bytes for the squared error that
/// it adds. These are the plans on the convex hull of bytes against squared error (Shoham & Gersho 1988, "Efficient bit
/// allocation for an arbitrary set of quantizers", IEEE Trans. ASSP 36(9)).
std::vector<Plan> plans(const std::vector<Subject>& subjects);

/// The policy of a plan.
training::Policy policy_of(const std::vector<Subject>& subjects, const Plan& plan, const std::string& name,
                           const std::string& title);

/// How much of accuracy may be lost, or how many bytes there are.
struct Budget {
  double accuracy = 0;
  std::optional<double> bytes = {};
};
/// "0.005", or bytes as "400000B", "400kB", "1.5MB", "2GB" (powers of 1000). Throws std::invalid_argument in one line.
Budget parse_budget(const std::string& text);

/// The formats that `formats` names.
std::vector<training::Storage> parse_formats(const Config& config);

/// Measures errors by single steps and short trainings, in two states of the network: before the first step and after
/// an FP32 training.
class Sensitivity {
 public:
  /// `learned`: what the FP32 training left. What is given outlives this.
  Sensitivity(const Config& config, const trainings::Data& data, const trainings::Job& job,
              training::NetworkValues learned);
  /// Every place of the network, with an option for each format and its error.
  std::vector<Subject> measure(const std::vector<training::Storage>& formats, Run& run, double from, double to) const;
  /// The plan with every activation and gradient narrower for which that changes no bit of a gradient, in both states:
  /// ReLU of BF16 numbers is BF16.
  Plan narrowed_for_free(const std::vector<Subject>& subjects, Plan plan) const;
  /// The relative difference between the gradients of two batches: what training lives with anyway.
  double noise() const { return noise_; }

 private:
  using Gradients = std::vector<std::vector<float>>;
  std::vector<Place> places() const;
  /// Of the first batch of a seed, without the loss scale; NaN and Inf as they come.
  Gradients gradients(const training::Policy& policy, const training::NetworkValues& start, std::uint64_t seed) const;
  /// Empty if the training fails.
  Gradients displacement(const training::Policy& policy, const training::NetworkValues& start) const;
  /// The option with its error and its loss scale.
  Option measured(const Place& place, Option option) const;

  const Config& config_;
  const trainings::Data& data_;
  training::TrainerSettings settings_;
  Json identity_;  ///< of the FP32 training
  std::vector<training::NetworkValues> states_;
  std::vector<Gradients> gradients_, displacements_;  ///< of FP32, in each state
  double noise_ = 0;
};

/// A format for each tensor of the folder that `tensors` names: table and claim. A budget of accuracy is then the
/// largest relative error. Throws std::invalid_argument for folders and files that are not what they should be.
void recommend_for_tensors(const Config& config, const Budget& budget, Run& run);

/// Why this option of a subject and no narrower one, in a few words.
std::string reason(const Subject& subject, std::size_t chosen);
/// The same of what became narrower because that changes nothing where the plan is.
inline constexpr std::string_view free_of_charge = "free: what comes in is as narrow, and no bit of a gradient changes";

}  // namespace halfulp::recommendation
