// What fine-tuning under one policy came to, and what is known and published of it.
#pragma once

#include <halfulp/training/record_fields.hpp>
#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace halfulp::trainings {

/// A test of the classes that fine-tuning sees, and the accuracy on the others.
struct TestOfClasses {
  training::TestResult tuned = {};
  double other = 0;
};

/// One fine-tuning.
struct Tuning {
  std::string network;
  const training::Policy* policy = nullptr;
  std::size_t learned = 0, tests = 0;  ///< places of what it begins with, and of its test examples
  TestOfClasses before = {}, after = {};
  double start_error = 0,
         weight_norm = 0;     ///< of the pre-trained weights: what rounding changed, relative to their norm; that norm
  double largest_weight = 0;  ///< their largest magnitude
  double moved = 0, unmoved = 0;
  std::uint64_t parameters = 0;
};

// What a store keeps of a pre-training and of a fine-tuning beside the records of their trainings.

template <class V>
void fields(V& v, TestOfClasses& x) {
  v("tuned", x.tuned);
  v("answers", x.tuned.examples);
  v("other", x.other);
}
template <class V>
void fields(V& v, Tuning& x) {
  v("before", x.before);
  v("after", x.after);
  v("start_error", x.start_error);
  v("weight_norm", x.weight_norm);
  v("largest_weight", x.largest_weight);
  v("moved", x.moved);
  v("unmoved", x.unmoved);
  v("parameters", x.parameters);
}

/// Several that differ only by their seed: sums over them, and extremes.
struct TuningSpread {
  std::uint64_t parameters = 0;
  double tuned = 0, other = 0, all = 0, tuned_before = 0, other_before = 0, rounding_cost = 0, start_error = 0,
         moved = 0, unmoved = 0;
  double largest_error = 0, smallest_norm = 1e300, largest_weight = 0;  ///< start_error, weight_norm
  Spread accuracy = {};                                                 ///< on tuned classes

  std::uint64_t count() const { return accuracy.count(); }
  void add(const Tuning& t, bool has_failed) {
    parameters = t.parameters;
    accuracy.trials.push_back({t.after.tuned.accuracy, t.after.tuned.loss, has_failed, t.after.tuned.examples});
    tuned += t.after.tuned.accuracy, other += t.after.other;
    tuned_before += t.before.tuned.accuracy, other_before += t.before.other;
    start_error += t.start_error, moved += t.moved, unmoved += t.unmoved;
    largest_error = std::max(largest_error, t.start_error), smallest_norm = std::min(smallest_norm, t.weight_norm),
    largest_weight = std::max(largest_weight, t.largest_weight);
  }
};

/// By network and policy.
using TuningOutcomes = std::map<std::pair<std::string, std::string>, TuningSpread>;

void claim_finetune(const Config& config, const Data& data, const std::vector<training::Policy>& policies,
                    const TuningOutcomes& outcomes, Report& report);

}  // namespace halfulp::trainings
