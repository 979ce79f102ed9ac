// What happened to the numbers of a model that someone else trains under a policy, as a report.
#pragma once

#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/training/microscope.hpp>
#include <halfulp/training/product_errors.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace halfulp::trainings {

/// How many gradients have which binary exponent: -149 to 127 of magnitudes, as frexp has them less one.
struct ExponentRow {
  training::OperatorKind kind = training::OperatorKind::linear;
  std::string name;
  training::Role role = training::Role::gradient_of_activation;
  std::uint64_t zeros = 0, non_finite = 0;
  std::array<std::uint64_t, 277> counts = {};  ///< from exponent -149 on

  ExponentRow& operator+=(const ExponentRow& other);  ///< its counts
};
inline constexpr int lowest_exponent = -149;
using ExponentRows = training::Rows<std::tuple<training::OperatorKind, std::string, training::Role>, ExponentRow>;

/// Watches steps of a training: every `every`-th is counted, from the first. It keeps at most 64 counted steps: with
/// one more it forgets every second one, and counts half as often from then on. Of the steps between it only notes the
/// first Inf and NaN.
class ModelWatch : public training::Observer {
 public:
  struct Counted {
    std::uint64_t step = 0;
    std::vector<training::ProductErrors> products;
    std::vector<training::Microscope::Row> tensors;
    std::vector<ExponentRow> gradients;
  };

  /// `every`: at least 1.
  explicit ModelWatch(std::uint64_t every) : every_(every) {}

  /// Whether this step is counted. `evaluates`: nothing is looked at.
  bool begin_step(std::uint64_t step, bool evaluates);
  void end_step();
  std::uint64_t every() const { return every_; }

  /// Counted steps write their gradients of activations into this, as they come. Null: nowhere.
  void save_into(SavedGradients* saved, double scale) { saved_ = saved, saved_scale_ = scale; }

  bool counts() const override { return microscope_.counts(); }
  bool measures() const override { return microscope_.counts(); }
  void before(const training::Site&, training::Role, const training::Storage&, std::span<const float>) override;
  void see(const training::Sighting&) override;
  void see_product(const training::ProductSighting& product) override { meter_.see(product); }

  const std::vector<Counted>& counted() const { return counted_; }
  const training::Microscope& microscope() const { return microscope_; }

 private:
  std::uint64_t every_, step_ = 0;
  training::Microscope microscope_;
  training::ProductMeter meter_;
  std::vector<Counted> counted_;
  ExponentRows gradients_;
  SavedGradients* saved_ = nullptr;
  double saved_scale_ = 1;
};

/// What the report says of itself. Nobody but halfulp.torch runs it: `run` is null.
Experiment model_experiment();

/// What the caller of a watched model knows.
struct ModelFacts {
  std::string model;     ///< the model's class
  std::string policy;    ///< its name
  Json definition = {};  ///< the policy
  std::uint64_t seed = 0, steps = 0;
  Json calls = {};    ///< rows: function, module, calls, whether by an operator of the policy
  Json updates = {};  ///< rows: step, parameter, elements, with gradient, swamped, norms of weight, gradient, update
  Json losses = {};   ///< rows: step, loss, loss scale, whether the step was taken
  Json births = {};   ///< rows of calls outside the policy: what, step, function, module, null
  Json events = {};   ///< rows: update, event, scale before and after, in words
};

/// The report "model": calls, and what was watched. `watch` may be null. `command`: for the environment. Throws
/// std::logic_error for rows of another length.
Report model_report(const ModelWatch* watch, const ModelFacts& facts, const std::string& command);

}  // namespace halfulp::trainings
