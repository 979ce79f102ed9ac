// Independent rows of a tensor on all threads. Nothing is added across rows here, so that the number of threads never shows.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace halfulp::training {

/// f(begin, end) over [0, rows) in pieces of any size, each at least about ten thousand steps where a row takes `cost`.
template <class F>
void for_rows(std::size_t rows, std::size_t cost, F&& f) {
  constexpr std::size_t least = 1 << 14;
  const std::size_t grain = std::max<std::size_t>(1, least / std::max<std::size_t>(1, cost));
  if (rows <= grain) {
    if (rows > 0) f(std::size_t{0}, rows);
    return;
  }
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, rows, grain),
                    [&](const auto& piece) { f(piece.begin(), piece.end()); });
}

/// to[i] = f(i), of a step's cost each. f is copied, so that what it refers to stays in registers and the loop becomes vectors; for
/// that it loads what it may need before it decides.
template <class T, class F>
void for_elements(std::span<T> to, std::size_t cost, const F& f) {
  for_rows(to.size(), cost, [data = to.data(), f](std::size_t begin, std::size_t end) {
    T* const out = data;
    const F own = f;
    for (std::size_t i = begin; i < end; ++i) out[i] = own(i);
  });
}

}  // namespace halfulp::training
