// Independent pieces of work on all cores, results in order: the number of threads never shows.
#pragma once

#include <halfulp/experiments/run/interrupt.hpp>

#include <tbb/parallel_for.h>

#include <vector>

namespace halfulp {

/// {f(0), ..., f(count - 1)}, computed in any order on any number of threads (the command line's --threads).
/// f must not share mutable state between calls: give each its own Trace and append them afterwards. Throws what f throws,
/// and Interrupted after Ctrl-C before the next piece.
template <class F>
auto parallel_map(std::size_t count, F&& f) {
  std::vector<decltype(f(std::size_t{}))> results(count);
  tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    stop_if_interrupted();
    results[i] = f(i);
  });
  return results;
}

}  // namespace halfulp
