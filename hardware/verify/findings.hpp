// What a verification found, chunk by chunk.
#pragma once

#include <halfulp/hardware/difference.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace halfulp::verify {

inline constexpr std::size_t max_witnesses = 8;

/// What was found over some inputs.
struct Findings {
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t farthest = 0;                    ///< the largest units_apart
  std::map<std::string, std::uint64_t> classes;  ///< difference_class -> count
  std::vector<Witness> witnesses;                ///< the first ones in input order
  /// One case that differs.
  void note(const Task& task, const Witness& witness);
  /// Adds what was found over the inputs that follow.
  Findings& operator+=(const Findings& later);
  bool operator==(const Findings&) const = default;
};

/// One run of chunk_size inputs (the last may be shorter), or of verify::pairs_per_chunk pairs: the unit of digests and of resuming.
struct Chunk {
  std::uint64_t index = 0, digest = 0;
  Findings findings;
};

}  // namespace halfulp::verify
