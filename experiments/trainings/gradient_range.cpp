#include <halfulp/experiments/trainings/gradient_range.hpp>

#include <halfulp/emulation/array.hpp>
#include <halfulp/experiments/run/interrupt.hpp>
#include <halfulp/experiments/underflow/fate.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace halfulp::trainings {
namespace {

/// The smallest k in (low, high] for which `holds`, which from there on stays true.
template <class F>
int smallest_scale(int low, int high, F&& holds) {
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

/// The smallest k for which x 2^k > bound, or >= bound. Both are positive.
int scale_beyond(double x, double bound, bool equal_counts) {
  int of_x = 0, of_bound = 0;
  const double significand = std::frexp(x, &of_x), limit = std::frexp(bound, &of_bound);
  const bool beyond = significand > limit || (equal_counts && significand == limit);
  return of_bound - of_x + !beyond;
}

}  // namespace

void GradientSample::add(std::span<const float> gradients) {
  for (const float g : gradients) {
    if (g == 0)
      ++zeros_;
    else if (std::isfinite(g))
      magnitudes_.push_back(std::fabs(g));
    else
      ++not_finite_;
  }
}

void GradientSample::add(const GradientSample& other) {
  zeros_ += other.zeros_, not_finite_ += other.not_finite_;
  magnitudes_.insert(magnitudes_.end(), other.magnitudes_.begin(), other.magnitudes_.end());
}

void GradientSample::sort() { std::sort(magnitudes_.begin(), magnitudes_.end()); }

std::uint64_t GradientSample::between(double from, double to) const {
  const auto below = [&](double bound) {
    return std::partition_point(magnitudes_.begin(), magnitudes_.end(), [&](float m) { return m < bound; });
  };
  return static_cast<std::uint64_t>(below(to) - below(from));
}

int GradientSample::smallest_exponent() const { return std::ilogb(magnitudes_.front()); }
int GradientSample::largest_exponent() const { return std::ilogb(magnitudes_.back()); }

Recovery GradientSample::by_rounding(const FloatFormat& format, int k) const {
  const double scale = FloatFormat::power_of_two(k);
  std::array<double, 4096> scaled{};
  Tally tally;
  for (std::size_t first = 0; first < magnitudes_.size(); first += scaled.size()) {
    const std::size_t n = std::min(scaled.size(), magnitudes_.size() - first);
    for (std::size_t i = 0; i < n; ++i) scaled[i] = scale * static_cast<double>(magnitudes_[first + i]);
    const std::span<double> values(scaled.data(), n);
    quantize(format, {}, values, values, {}, &tally);
  }
  stop_if_interrupted();
  return {tally.to_zero, tally.subnormal, tally.overflow};
}

Recovery GradientSample::by_limits(const FloatFormat& format, int k) const {
  const NearestEvenLimits limits(format);
  const double scale = FloatFormat::power_of_two(k);
  // Magnitudes ascend, and so do their fates.
  const auto first_of = [&](Fate fate) {
    return std::partition_point(magnitudes_.begin(), magnitudes_.end(),
                                [&](float m) { return limits.fate(scale * static_cast<double>(m)) < fate; });
  };
  const auto subnormal = first_of(Fate::subnormal), normal = first_of(Fate::normal), overflow = first_of(Fate::overflow);
  return {static_cast<std::uint64_t>(subnormal - magnitudes_.begin()), static_cast<std::uint64_t>(normal - subnormal),
          static_cast<std::uint64_t>(magnitudes_.end() - overflow)};
}

ScaleRange GradientSample::range_by_rounding(const FloatFormat& format) const {
  const int from = smallest_scale(-300, 300, [&](int k) { return by_rounding(format, k).lost == 0; });
  return {from, smallest_scale(-300, 300, [&](int k) { return by_rounding(format, k).overflowed != 0; }) - 1};
}

ScaleRange GradientSample::range_by_limits(const FloatFormat& format) const {
  const NearestEvenLimits limits(format);
  const int from = scale_beyond(static_cast<double>(magnitudes_.front()), limits.largest_zero(), false);
  return {from, scale_beyond(static_cast<double>(magnitudes_.back()), limits.overflow, limits.tie_overflows) - 1};
}

}  // namespace halfulp::trainings
