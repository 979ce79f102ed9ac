// The tables that every experiment with trainings has: runs, curves, and what the microscope saw.
#pragma once

#include <halfulp/experiments/trainings/runs.hpp>

namespace halfulp::trainings {

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

/// A share, null of nothing.
Json share(std::uint64_t part, std::uint64_t whole);

}  // namespace halfulp::trainings
