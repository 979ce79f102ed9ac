// What several trainings that differ only by their seed say together, and the tables of every training.
#pragma once

#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::trainings {

struct Spread {
  std::uint64_t count = 0, failed = 0, skipped = 0;
  double sum = 0, lowest = 1, highest = 0, losses = 0;
  std::vector<double> accuracies = {};  ///< in the order of seeds
  double answers = 0;                   ///< that one accuracy is a share of; 0: not counted

  void add(const training::TrainingRecord& record, std::size_t tests = 0) {
    add(record.final.accuracy, record.diverged.has_value(), tests);
    skipped += record.skipped();
    if (!record.diverged) losses += record.final.loss;
  }
  void add(double accuracy, bool has_failed, std::size_t tests) {
    ++count;
    accuracies.push_back(accuracy);
    answers = static_cast<double>(tests);
    failed += has_failed;
    sum += accuracy;
    lowest = std::min(lowest, accuracy);
    highest = std::max(highest, accuracy);
  }
  double mean() const { return sum / static_cast<double>(count); }
  /// NaN if all failed.
  double mean_loss() const { return losses / static_cast<double>(count - failed); }
};

/// A difference of accuracies, without what sums of fractions leave of a zero, nor its sign.
inline double difference(double a, double b) { return std::round((a - b) * 1e12) / 1e12 + 0.0; }

/// How one variant's accuracy stands to another's. Trainings of one seed have the same first values and examples: what
/// counts is the difference seed by seed.
struct Standing {
  double difference = 0;  ///< mean over seeds
  /// Twice the standard error of that mean: by the seeds, or by the number of answers where that says more (few seeds
  /// tell little).
  double doubt = 0;
  bool below() const { return difference < -doubt; }
};
inline Standing standing(const Spread& of, const Spread& than) {
  Standing s;
  const std::size_t n = std::min(of.accuracies.size(), than.accuracies.size());
  if (n == 0) return s;
  const auto seeds = static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) s.difference += (of.accuracies[i] - than.accuracies[i]) / seeds;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i)
    squares += (of.accuracies[i] - than.accuracies[i] - s.difference) *
               (of.accuracies[i] - than.accuracies[i] - s.difference);
  const double by_seeds = n > 1 ? std::sqrt(squares / (seeds - 1) / seeds) : 0;
  const double p = than.mean(), by_answers = than.answers > 0 ? std::sqrt(p * (1 - p) / (than.answers * seeds)) : 0;
  s.difference = difference(s.difference, 0);
  s.doubt = 2 * std::max(by_seeds, by_answers);
  return s;
}

/// By network and variant.
using Outcomes = std::map<std::pair<std::string, std::string>, Spread>;

// Why a training ended as it did, from what the microscope saw.

/// Shares over all tensors and intervals of a training.
struct Evidence {
  double swamped = 0;                ///< of updates other than zero
  double gradients_underflowed = 0;  ///< of gradients, of weights and activations
  double operands_underflowed = 0;   ///< of the operands of products
  double gradients_zero = 0;         ///< of the weights' gradients
  double second_underflowed = 0;     ///< of Adam's second moments
  std::uint64_t zero_denominators = 0;
  double growth = 0;  ///< largest norm of a parameter over its first one, at the end
};
Evidence evidence_of(const training::TrainingRecord& record);

struct Diagnosis {
  std::string why;     ///< in a few words; empty if nothing is to be told
  std::string repair;  ///< what is known to help
};
/// `worse`: whether it ended below the reference.
Diagnosis diagnose(const training::TrainingRecord& record, bool worse);

// The tables that every experiment with trainings has: runs, curves, and what the microscope saw.

class Tables {
 public:
  /// Declares them. `variant`: what the experiment varies, a column of every table ("policy").
  Tables(Report& report, const std::string& variant, const std::string& description);
  /// Adds one training. `closely`: with tensors and updates, interval by interval.
  void add(const Job& job, const training::TrainingRecord& record, bool closely);

 private:
  Table &runs_, &curves_, &tensors_, &updates_, &events_, &spikes_;
};

/// "step 12: fc1, gradient-of-activation"; null if there was none.
Json where(const std::optional<training::FirstNonFinite>& first);

}  // namespace halfulp::trainings
