#include <halfulp/experiments/checkpoint/rounding.hpp>

#include <halfulp/data/layout_writing.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/support/work.hpp>

#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace halfulp::checkpoint {

void add_losses(Loss& loss, const RoundedPart& part) {
  const auto& [floats, exact] = part.before;
  if (exact.empty()) add_losses(loss, floats, part.after, part.grid, part.runs, sum_of_squares(floats));
  else add_losses(loss, exact, part.after, part.grid, part.runs, part.ranges);
}

TensorRounding::TensorRounding(const ModelTensor& tensor, const AnyFormat& format, const Rounding& rounding,
                               RandomStream random)
    : tensor_(tensor), format_(format), rounding_(rounding), random_(random), view_(view_of(tensor.shape)) {
  parts_ = tensor.count == 0 ? std::vector<Part>() : parts_of(view_, {&format_}, false);
  if (block() && block()->element.is_affine() && by_value(format_) && parts_.size() > 1)
    parts_ = {{0, 0, view_.matrices * view_.rows, 0, view_.columns}};
}

void TensorRounding::prepare() {
  if (!block() || block()->element.is_affine() || !(block()->tensor_scale || by_value(format_))) return;
  const auto of_parts = parallel_map(parts_.size(), [&](std::size_t i) {
    return tbb::this_task_arena::isolate([&] {
      std::vector<float> values;
      gather(view_, parts_[i], values, [&](std::uint64_t at, auto some) { tensor_.read(at, some); });
      const float all = largest_magnitude(values);
      if (!std::isnan(all)) return std::pair{all, false};
      std::erase_if(values, [](float x) { return std::isnan(x); });
      return std::pair{largest_magnitude(values), true};
    });
  });
  bool nan = false;
  for (const auto& [amax, has_nan] : of_parts) amax_ = std::max(amax_, amax), nan |= has_nan;
  // One step for all makes them all NaN; scales of blocks keep a NaN to its block.
  if (nan && !block()->tensor_scale) amax_ = std::numeric_limits<float>::quiet_NaN();
  shared_ = amax_;
}

void TensorRounding::round(const Part& part, RoundedPart& out) const {
  read_part(tensor_, view_, part, out.before);
  const auto& [floats, exact] = out.before;
  out.after.resize(floats.size()), out.after_exactly.clear(), out.runs.clear(), out.ranges.clear();
  RandomStream random = random_;
  random.first += first_row(part) * view_.columns;
  if (!block()) {
    const auto& plain = std::get<FloatFormat>(format_);
    const double most = plain.value(plain.max_finite());
    if (exact.empty()) {
      quantize(plain, rounding_, floats, std::span<float>(out.after), random);
    } else {
      out.after_exactly.resize(exact.size());
      quantize(plain, rounding_, exact, std::span<double>(out.after_exactly), random);
      std::ranges::transform(out.after_exactly, out.after.begin(), [](double x) { return static_cast<float>(x); });
    }
    out.grid = one_block(floats.size());
    out.ranges.push_back({plain.is_signed ? -most : -std::numeric_limits<double>::infinity(), most});
    out.runs.push_back(element_run(out.ranges.back(), 1));
    return;
  }
  const BlockFormat& f = *block();
  const ValueRange range = range_of(f.element);
  quantize_blocks(f, rounding_, floats, part.rows, part.columns, out.array, BlockOptions{random, shared_});
  dequantize_blocks(out.array, out.after);
  out.grid = block_grid(f, part.rows, part.columns);
  for (std::size_t i = 0; i < out.grid.count(); ++i) {
    const BlockStep step = out.array.step(i);
    out.runs.push_back(value_run(range, step));
    if (!exact.empty()) out.ranges.push_back(value_range(range, step));
  }
}

void TensorRounding::read_as(const StorageLayout& layout, RoundedPart& part) const {
  const BlockArray& array = part.array;
  const BlockFormat& f = array.format;
  if (!block() || !f.tensor_scale) return;
  std::vector<float> scales(array.scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    BlockStep step = array.step(i);
    const auto of_block = static_cast<float>(f.scale.value(array.scales[i]));
    scales[i] = step.value = scale_as_read(layout, of_block, array.tensor_scale, amax_);
    part.runs[i] = value_run(range_of(f.element), step);
    if (!part.ranges.empty()) part.ranges[i] = value_range(range_of(f.element), step);
  }
  for (std::size_t i = 0; i < part.after.size(); ++i)
    part.after[i] = static_cast<float>(f.element.value(array.codes[i])) *
                    scales[part.grid.index(i / array.columns, i % array.columns)];
}

}  // namespace halfulp::checkpoint
