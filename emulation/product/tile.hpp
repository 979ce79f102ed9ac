// One tile of outputs in a model's order.
#pragma once

#include <halfulp/emulation/product/plan.hpp>

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cfenv>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace halfulp::products {

/// For this thread, until whoever called puts the environment back.
inline void set_direction(Direction direction) {
#if defined(__SSE2__)
  _mm_setcsr(0x1f80 | static_cast<unsigned>(direction) << 13);
#else
  constexpr int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
  std::fesetround(modes[static_cast<int>(direction)]);
#endif
}

/// One tile of outputs in the model's order.
class Tile {
 public:
  Tile(const DotModel& model, const TileRules& rules, std::size_t k, const float* a, const float* b)
      : model_(model), rules_(rules), k_(k), a_(a), b_(b) {}

  void run(float* out) {
    const auto lane_part = [&](std::size_t j, float* to, std::size_t) { part(j, k_, std::min(model_.width, k_), to); };
    const std::size_t block = model_.order == Order::sequential ? k_ : std::min(model_.block, k_),
                      blocks = k_ / block + (k_ % block != 0);
    const auto block_part = [&](std::size_t j, float* to, std::size_t) {
      part(j * block, j * block + std::min(block, k_ - j * block), 1, to);
    };
    if (model_.order == Order::interleaved) return halves(0, std::min(model_.width, k_), lane_part, out, 0);
    if (blocks == 1) return block_part(0, out, 0);
    if (model_.order == Order::pairwise) return halves(0, blocks, block_part, out, 0);
    if (model_.order == Order::tree) return tree(0, blocks, block_part, out, 0);
    block_part(0, out, 0);
    for (std::size_t j = 1; j < blocks; ++j) {
      block_part(j, room(0), 0);
      add(out, room(0));
    }
  }

 private:
  void part(std::size_t begin, std::size_t end, std::size_t step, float* out) const {
    set_direction(rules_.running.direction);
    run_tile(rules_.running, (end - begin - 1) / step + 1, a_ + begin * panel_rows, step * panel_rows,
             b_ + begin * panel_columns, step * panel_columns, out);
  }
  void add(float* to, const float* x) const {
    set_direction(rules_.outer.direction);
    add_tiles(rules_.outer, to, x, to);
  }
  template <class Partial>
  void halves(std::size_t begin, std::size_t end, const Partial& partial, float* out, std::size_t level) {
    if (end - begin == 1) return partial(begin, out, level);
    const std::size_t middle = begin + (end - begin + 1) / 2;
    halves(begin, middle, partial, out, level);
    halves(middle, end, partial, room(level), level + 1);
    add(out, room(level));
  }
  template <class Partial>
  void tree(std::size_t begin, std::size_t end, const Partial& partial, float* out, std::size_t level) {
    const std::size_t count = end - begin;
    if (count == 1) return partial(begin, out, level);
    std::size_t below = 1;
    while (below <= (count - 1) / model_.width) below *= model_.width;
    const auto subtree = [&](std::size_t j, float* to, std::size_t at) {
      const std::size_t from = begin + j * below;
      tree(from, from + std::min(below, end - from), partial, to, at);
    };
    halves(0, (count - 1) / below + 1, subtree, out, level);
  }
  /// A tile for what is added at a depth of the recursion.
  float* room(std::size_t level) {
    while (rooms_.size() <= level) rooms_.push_back(hwy::AllocateAligned<float>(tile_size));
    return rooms_[level].get();
  }

  const DotModel& model_;
  const TileRules& rules_;
  std::size_t k_;
  const float *a_, *b_;
  std::vector<hwy::AlignedFreeUniquePtr<float[]>> rooms_;
};

}  // namespace halfulp::products
