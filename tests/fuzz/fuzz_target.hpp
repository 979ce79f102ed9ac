// The one entry every fuzz target defines: libFuzzer calls it with what it makes up, replay.cpp with the corpus and
// mutations of it. A target fails by crashing: by a sanitizer, an uncaught exception, or `demand`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstdio>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Aborts, also in Release builds, where `what` does not hold.
inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: %s\n", what);
  std::abort();
}
