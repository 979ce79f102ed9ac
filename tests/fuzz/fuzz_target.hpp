// The entry point of every fuzz target. libFuzzer calls it with generated inputs, replay.cpp with the corpus and its
// mutations. A target fails by a crash: of a sanitizer, an uncaught exception, or `demand`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstdio>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Aborts if `what` does not hold, also in Release builds.
inline void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: %s\n", what);
  std::abort();
}
