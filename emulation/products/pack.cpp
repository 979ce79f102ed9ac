#include <halfulp/emulation/products/pack.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace halfulp::products {
namespace {

/// Bits of magnitudes are ordered as they are.
Extent extent_of(const float* values, std::size_t count) {
  std::int32_t most = 0, least = 0x7fff'ffff;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fff'ffff, before = (magnitude - 1) & 0x7fff'ffff;  // zeros go to the top
    most = std::max(most, magnitude);
    least = std::min(least, before);
  }
  Extent extent;
  extent.finite = most < 0x7f80'0000;
  if (extent.finite) {
    extent.max = std::bit_cast<float>(most);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fff'ffff;
      if (magnitude < 0x7f80'0000) extent.max = std::max(extent.max, std::bit_cast<float>(magnitude));
    }
  }
  if (least < 0x7f80'0000 - 1) extent.min = std::bit_cast<float>(least + 1);
  return extent;
}

}  // namespace

Panels pack(const float* values, std::size_t vectors, std::size_t depth, std::size_t width, std::size_t of_vector, std::size_t of_component) {
  Panels p{width, depth, nullptr, {}};
  const std::size_t panels = (vectors + width - 1) / width, size = panels * width * depth;
  p.values = hwy::AllocateAligned<float>(std::max<std::size_t>(size, 1));
  p.extents.resize(panels);
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / std::max<std::size_t>(1, width * depth));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, panels, grain), [&](const auto& range) {
    for (std::size_t panel = range.begin(); panel != range.end(); ++panel) {
      float* to = p.values.get() + panel * width * depth;
      const float* from = values + panel * width * of_vector;
      const std::size_t count = std::min(width, vectors - panel * width);
      if (count < width) std::fill_n(to, width * depth, 0.0f);
      if (of_component == 1) {
        for (std::size_t begin = 0; begin < depth; begin += 64)  // as much as stays in the first cache
          for (std::size_t v = 0; v < count; ++v)
            for (std::size_t i = begin, end = std::min(depth, begin + 64); i < end; ++i) to[i * width + v] = from[v * of_vector + i];
      } else {
        for (std::size_t i = 0; i < depth; ++i)
          for (std::size_t v = 0; v < count; ++v) to[i * width + v] = from[v * of_vector + i * of_component];
      }
      p.extents[panel] = extent_of(to, width * depth);
    }
  });
  return p;
}

}  // namespace halfulp::products
