#include <halfulp/experiments/training/spikes.hpp>

#include <cmath>

namespace halfulp::training {
namespace {
constexpr std::uint64_t settled = 20;
}

void SpikeDetector::Mean::take(double value) {
  mean = count == 0 ? value : mean + (value - mean) / 20;
  ++count;
}

void SpikeDetector::see(std::uint64_t step, double loss, double norm, std::vector<Spike>& spikes) {
  const auto look = [&](Mean& of, double value, double limit, bool of_loss) {
    if (!std::isfinite(value)) return;
    if (of.count >= settled && value > limit) spikes.push_back({step, of_loss, value, of.mean});
    else of.take(value);
  };
  look(norm_, norm, 4 * norm_.mean, false);
  look(loss_, loss, 1.25 * loss_.mean + 0.25, true);
}

void SpikeDetector::restore(const Json& state) {
  loss_ = {state.at(0), state.at(1)};
  norm_ = {state.at(2), state.at(3)};
}

std::uint64_t announced(const std::vector<Spike>& spikes, std::uint64_t within) {
  std::uint64_t count = 0;
  for (const Spike& loss : spikes) {
    if (!loss.of_loss) continue;
    for (const Spike& norm : spikes)
      if (!norm.of_loss && norm.step <= loss.step && loss.step - norm.step <= within) {
        ++count;
        break;
      }
  }
  return count;
}

}  // namespace halfulp::training
