// The tables of loss_scaling that no other training has: static, ends, dynamic, scale_course, collapse.
#pragma once

#include <halfulp/experiments/trainings/loss_scaling_runs.hpp>
#include <halfulp/experiments/trainings/spread.hpp>

namespace halfulp::trainings {

class ScalingTables {
 public:
  /// Declares them.
  explicit ScalingTables(Report& report);
  /// A row of `ends`, `dynamic` or `collapse`, whichever the run belongs to; the course of its scale too if it is the first seed's.
  void add(const ScaledRun& run, const NetworkGradients& gradients, bool first_seed);
  /// A static scale over all its seeds; `fp32`: accuracy of the reference.
  void add_static(const ScaledRun& first, const Spread& spread, double fp32);

 private:
  void add_course(const ScaledRun& run);
  Table &static_, &ends_, &dynamic_, &course_, &collapse_;
};

}  // namespace halfulp::trainings
