// The tables of every training, and why one ended as it did.
#pragma once

#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/standing.hpp>
#include <halfulp/training/trainer.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace halfulp::trainings {

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
  double growth = 0;  ///< of a parameter: its norm at the end over that before the first step, the largest
};
Evidence evidence_of(const training::TrainingRecord& record);
/// The updates of the last step that was counted; null if none was.
const std::vector<training::Microscope::UpdateRow>* last_updates(const training::TrainingRecord& record);

struct Diagnosis {
  std::string why;     ///< in a few words; empty if nothing is to be told
  std::string repair;  ///< what is known to help
};
/// `worse`: whether it ended below the reference. `narrow`: whether anything in it is narrower than FP32.
Diagnosis diagnose(const training::TrainingRecord& record, bool worse, bool narrow = true);

/// Columns of what rounding did to tensors in a step, and the cells of one of them.
/// `step`: what its column says.
std::vector<Column> tensor_columns(const std::string& step);
std::vector<Json> tensor_cells(std::uint64_t step, const training::Microscope::Row& row);

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
