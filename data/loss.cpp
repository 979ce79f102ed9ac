#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "data/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/data/loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace halfulp::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;
constexpr std::size_t lanes = hn::MaxLanes(Doubles()), vectors = 8 / lanes;

/// Eight partial sums in registers.
struct Partial {
  hn::Vec<Doubles> sums[vectors];
  explicit Partial(const double* from) {
    for (std::size_t k = 0; k < vectors; ++k) sums[k] = hn::LoadU(Doubles(), from + k * lanes);
  }
  void store(double* to) const {
    for (std::size_t k = 0; k < vectors; ++k) hn::StoreU(sums[k], Doubles(), to + k * lanes);
  }
};

/// How often conditions held, in floats: exact up to 2^24 a lane.
class Counts {
 public:
  Counts() : counts_(hn::Zero(Floats())) {}
  template <class Mask>
  void add(Mask holds) {
    counts_ = hn::Add(counts_, hn::IfThenElseZero(holds, hn::Set(Floats(), 1.0f)));
  }
  std::uint64_t all() const {
    float counts[hn::MaxLanes(Floats())];
    hn::StoreU(counts_, Floats(), counts);
    double sum = 0;
    for (const float c : counts) sum += static_cast<double>(c);
    return static_cast<std::uint64_t>(sum);
  }

 private:
  hn::Vec<Floats> counts_;
};

void add_runs_kernel(RunSums& sums, const float* before, const float* elements, std::size_t run, std::size_t count,
                     const ElementRun* runs) {
  const Floats f;
  const Doubles d;
  Partial errors(sums.errors.data()), largest(sums.largest.data());
  Counts beyond, zeroed;
  std::uint64_t saturated = 0, to_zero = 0;
  const auto zero = hn::Zero(f);
  for (std::size_t begin = 0; begin < count; begin += run, ++runs) {
    const std::size_t end = std::min(count, begin + run);
    const auto scale = hn::Set(f, runs->scale), low = hn::Set(f, runs->low), high = hn::Set(f, runs->high);
    std::size_t i = begin;
    for (; i + 8 <= end; i += 8)
      for (std::size_t k = 0; k < vectors; ++k) {
        const auto x = hn::LoadU(f, before + i + k * lanes);
        const auto q = hn::Mul(hn::LoadU(f, elements + i + k * lanes), scale);
        beyond.add(hn::Or(hn::Gt(x, high), hn::Lt(x, low)));
        zeroed.add(hn::And(hn::Ne(x, zero), hn::Eq(q, zero)));
        const auto error = hn::Sub(hn::PromoteTo(d, q), hn::PromoteTo(d, x));
        errors.sums[k] = hn::Add(errors.sums[k], hn::Mul(error, error));
        largest.sums[k] = hn::Max(largest.sums[k], hn::Abs(error));
      }
    if (i == end) continue;
    double squares[8], most[8];
    errors.store(squares), largest.store(most);
    for (std::size_t lane = 0; i < end; ++i, ++lane) {
      const float x = before[i], q = elements[i] * runs->scale;
      saturated += x > runs->high || x < runs->low;
      to_zero += x != 0 && q == 0;
      const double error = static_cast<double>(q) - static_cast<double>(x);
      squares[lane] += error * error;
      most[lane] = std::max(most[lane], std::fabs(error));
    }
    errors = Partial(squares), largest = Partial(most);
  }
  errors.store(sums.errors.data()), largest.store(sums.largest.data());
  sums.saturated += saturated + beyond.all(), sums.to_zero += to_zero + zeroed.all();
}

void squares_kernel(const float* values, std::size_t count, double* sums) {
  const Floats f;
  const Doubles d;
  Partial partial(sums);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::size_t k = 0; k < vectors; ++k) {
      const auto x = hn::PromoteTo(d, hn::LoadU(f, values + i + k * lanes));
      partial.sums[k] = hn::Add(partial.sums[k], hn::Mul(x, x));
    }
  partial.store(sums);
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    const double x = static_cast<double>(values[i]);
    sums[lane] += x * x;
  }
}

}  // namespace halfulp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp {

HWY_EXPORT(add_runs_kernel);
HWY_EXPORT(squares_kernel);

ValueRange range_of(const BlockElement& e) {
  if (!e.is_integer()) return {-e.target(), e.target()};
  const double unit = FloatFormat::power_of_two(-e.fraction_bits);
  return {e.least() * unit, e.most() * unit};
}

double Loss::relative_error() const {
  if (squares.is_zero()) return errors.is_zero() ? 0 : INFINITY;  // zeros, in a format without
  return errors.root_of_ratio(squares);
}

void Loss::count(double before, double after, ValueRange range, std::uint64_t times) {
  const auto times_if = [times](bool holds) { return holds ? times : 0; };
  elements += times;
  nan_before += times_if(std::isnan(before)), nan_after += times_if(std::isnan(after));
  infinite_before += times_if(std::isinf(before)), infinite_after += times_if(std::isinf(after));
  saturated += times_if((before > range.high || before < range.low) && std::isfinite(after));
  to_zero += times_if(before != 0 && after == 0);
  if (!std::isfinite(before)) return;
  became_infinite += times_if(std::isinf(after)), became_nan += times_if(std::isnan(after));
  if (!std::isfinite(after)) return;
  compared += times;
  const double error = after - before, n = static_cast<double>(times);
  errors.add(error, n), squares.add(before, n);
  largest_error = std::max(largest_error, std::fabs(error));
}

void Loss::add(const Loss& other) {
  elements += other.elements, saturated += other.saturated, to_zero += other.to_zero;
  nan_before += other.nan_before, nan_after += other.nan_after, infinite_before += other.infinite_before,
      infinite_after += other.infinite_after;
  became_infinite += other.became_infinite, became_nan += other.became_nan, compared += other.compared;
  largest_error = std::max(largest_error, other.largest_error);
  errors.add(other.errors), squares.add(other.squares);
}

ElementRun element_run(ValueRange range, float scale) {
  // A float is beyond a bound if and only if it is beyond the nearest float within.
  const auto within = [](double bound, float toward) {
    const auto rounded = static_cast<float>(bound);
    return std::fabs(static_cast<double>(rounded)) > std::fabs(bound) ? std::nextafter(rounded, toward) : rounded;
  };
  return {scale, within(range.low * static_cast<double>(scale), 0), within(range.high * static_cast<double>(scale), 0)};
}

void add_runs(RunSums& sums, const float* before, const float* elements, std::size_t run, std::size_t count,
              const ElementRun* runs) {
  HWY_DYNAMIC_DISPATCH(add_runs_kernel)(sums, before, elements, run, count, runs);
}

double sum_of_squares(std::span<const float> values) {
  std::array<double, 8> sums{};
  HWY_DYNAMIC_DISPATCH(squares_kernel)(values.data(), values.size(), sums.data());
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

}  // namespace halfulp
#endif
