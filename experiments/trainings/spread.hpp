// Several trainings that differ by their seed alone.
#pragma once

#include <halfulp/experiments/training/trainer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace halfulp::trainings {

struct Spread {
  std::uint64_t count = 0, failed = 0, skipped = 0;
  double sum = 0, lowest = 1, highest = 0, losses = 0;

  void add(const training::TrainingRecord& record) {
    ++count;
    failed += record.diverged.has_value();
    skipped += record.skipped();
    sum += record.final.accuracy;
    lowest = std::min(lowest, record.final.accuracy);
    highest = std::max(highest, record.final.accuracy);
    if (!record.diverged) losses += record.final.loss;
  }
  double mean() const { return sum / static_cast<double>(count); }
  /// NaN if all failed.
  double mean_loss() const { return losses / static_cast<double>(count - failed); }
};

/// A difference of accuracies, without what sums of fractions leave of a zero.
inline double difference(double a, double b) { return std::round((a - b) * 1e12) / 1e12; }

/// By network and variant.
using Outcomes = std::map<std::pair<std::string, std::string>, Spread>;

}  // namespace halfulp::trainings
