#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/transpose.hpp>
#include <halfulp/emulation/product/panels.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace halfulp::products {
namespace {

/// So many lines, or so many components of a panel's vectors, are read at once: they stay in the first-level cache.
constexpr std::size_t lines_at_once = 16, components_at_once = 256;

/// Returns `count` elements of a line as floats, in place or in `room`.
class Reader {
 public:
  Reader(const CodeWords& words, const FloatFormat& f) : words_(words), f_(f) {}
  explicit Reader(const float* values) : values_(values) {}
  const float* operator()(std::size_t at, std::size_t count, float* room) const {
    if (values_) return values_ + at;
    words_.visit([&](const auto* words) {
      using Code = std::remove_cvref_t<decltype(*words)>;
      if constexpr (sizeof(Code) == 8) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint64_t code = words[at + i];
          room[i] = f_.is_nan(code) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(f_.value(code));
        }
      } else {
        decode(f_, std::span<const Code>(words + at, count), std::span(room, count));
      }
    });
    return room;
  }

 private:
  CodeWords words_;
  FloatFormat f_;
  const float* values_ = nullptr;
};

template <std::size_t width>
void interleave(const float* const (&from)[width], std::size_t count, float* to) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t v = 0; v < width; v += 4) {
      const float* const rows[] = {from[v] + i, from[v + 1] + i, from[v + 2] + i, from[v + 3] + i};
      array::transpose4(rows, to + i * width + v, width);
    }
  for (; i < count; ++i)
    for (std::size_t v = 0; v < width; ++v) to[i * width + v] = from[v][i];
}

/// Lines are vectors.
template <std::size_t width>
void pack_vectors(const Reader& read, const Lines& x, Panels& p) {
  const std::size_t grain = std::max<std::size_t>(1,
                                                  (std::size_t{1} << 14) / std::max<std::size_t>(1, width * p.depth));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, p.extents.size(), grain), [&](const auto& range) {
    array::Scratch<float> room((width + 1) * components_at_once);
    float* zeros = room.data() + width * components_at_once;
    std::fill_n(zeros, components_at_once, 0.0f);
    for (std::size_t panel = range.begin(); panel != range.end(); ++panel)
      for (std::size_t begin = 0; begin < p.depth; begin += components_at_once) {
        const std::size_t count = std::min(components_at_once, p.depth - begin);
        const float* from[width];
        for (std::size_t v = 0; v < width; ++v) {
          const std::size_t line = panel * width + v;
          from[v] = line < x.lines ? read(line * x.leading + begin, count, room.data() + v * components_at_once)
                                   : zeros;
        }
        interleave<width>(from, count, p.values.data() + (panel * p.depth + begin) * width);
      }
  });
}

/// Lines are components.
template <std::size_t width>
void pack_components(const Reader& read, const Lines& x, Panels& p) {
  const std::size_t blocks = (x.lines + lines_at_once - 1) / lines_at_once,
                    grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / (lines_at_once * x.length));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, blocks, grain), [&](const auto& range) {
    array::Scratch<float> room(lines_at_once * x.length);
    for (std::size_t block = range.begin(); block != range.end(); ++block) {
      const std::size_t first = block * lines_at_once, count = std::min(lines_at_once, x.lines - first);
      const float* from[lines_at_once];
      for (std::size_t i = 0; i < count; ++i)
        from[i] = read((first + i) * x.leading, x.length, room.data() + i * x.length);
      for (std::size_t panel = 0; panel < p.extents.size(); ++panel) {
        float* to = p.values.data() + (panel * p.depth + first) * width;
        const std::size_t here = std::min(width, x.length - panel * width);
        for (std::size_t i = 0; i < count; ++i, to += width) {
          if (here == width) {
            std::memcpy(to, from[i] + panel * width, width * sizeof(float));
          } else {
            std::memcpy(to, from[i] + panel * width, here * sizeof(float));
            std::fill(to + here, to + width, 0.0f);
          }
        }
      }
    }
  });
}

template <std::size_t width>
Panels packed(const Reader& read, const Lines& x, const Flushed& flushed, bool halves) {
  const std::size_t vectors = x.are_vectors ? x.lines : x.length, depth = x.are_vectors ? x.length : x.lines,
                    panels = (vectors + width - 1) / width;
  Panels p{width, depth, array::Scratch<float>(panels * width * depth), std::vector<MagnitudeRange>(panels), {}};
  constexpr std::size_t half_width = width == panel_rows ? half_rows : half_columns;
  if (halves) p.halves = array::Scratch<std::uint32_t>(panels * half_width * depth);
  x.are_vectors ? pack_vectors<width>(read, x, p) : pack_components<width>(read, x, p);
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 16) / std::max<std::size_t>(1, width * depth));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, panels, grain), [&](const auto& range) {
    for (std::size_t panel = range.begin(); panel != range.end(); ++panel) {
      float* const values = p.values.data() + panel * width * depth;
      const std::span<float> all(values, width * depth);
      if (flushed.unsigned_below > 0) flush_below(flushed.unsigned_below, all, false);
      if (flushed.below > 0) flush_below(flushed.below, all);
      p.extents[panel] = extent_of(values, width * depth);
      if (!p.extents[panel].finite)  // a NaN with a full payload would be rounded to a number
        std::replace_if(
            values, values + width * depth, [](float v) { return v != v; }, std::numeric_limits<float>::quiet_NaN());
      std::uint32_t* to = p.halves.data() + (halves ? panel * half_width * depth : 0);
      if (halves)
        width == panel_rows ? halve_rows(p.panel(panel), depth, to) : halve_columns(p.panel(panel), depth, to);
    }
  });
  return p;
}

Panels packed(const Reader& read, const Lines& x, std::size_t width, const Flushed& flushed, bool halves) {
  return width == panel_rows ? packed<panel_rows>(read, x, flushed, halves)
                             : packed<panel_columns>(read, x, flushed, halves);
}

}  // namespace

Panels pack(const CodeWords& words, const FloatFormat& f, const Lines& lines, std::size_t width, const Flushed& flushed,
            bool halves) {
  return packed(Reader(words, f), lines, width, flushed, halves);
}
Panels pack(std::span<const float> values, const FloatFormat&, const Lines& lines, std::size_t width,
            const Flushed& flushed, bool halves) {
  return packed(Reader(values.data()), lines, width, flushed, halves);
}

void flush_below(float limit, std::span<float> values, bool keeps_sign) {
  for (float& v : values)
    if (std::abs(v) < limit) v = keeps_sign ? std::copysign(0.0f, v) : 0.0f;
}

}  // namespace halfulp::products
