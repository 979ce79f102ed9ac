// Spikes of a curve: values far above what was usual just before.
#pragma once

#include <halfulp/hardware/json_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace halfulp::training {

struct Spike {
  std::uint64_t step = 0;
  bool of_loss = false;  ///< else of the gradients' norm
  double value = 0, usual = 0;
};

/// Running means with weight 1/20 for the newest value. A gradient norm above 4 times the mean is a spike, and a loss above the mean by
/// more than a quarter of it and a quarter; either after 20 steps. Values of spikes and those that are not finite leave the means alone.
class SpikeDetector {
 public:
  /// What step `step` had; appends to `spikes`.
  void see(std::uint64_t step, double loss, double norm, std::vector<Spike>& spikes);
  /// The running mean of norms; 0 before there is one.
  double usual_norm() const { return norm_.mean; }
  Json state() const { return {loss_.mean, loss_.count, norm_.mean, norm_.count}; }
  void restore(const Json& state);

 private:
  struct Mean {
    double mean = 0;
    std::uint64_t count = 0;
    void take(double value);
  };
  Mean loss_, norm_;
};

/// How many spikes of the loss had one of the gradients' norm at most `within` steps before them, or with them.
std::uint64_t announced(const std::vector<Spike>& spikes, std::uint64_t within);

}  // namespace halfulp::training
