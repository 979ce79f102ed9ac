// The conditions of a benchmark: an instruction set, a number of threads.
#pragma once

#include <benchmark/benchmark.h>
#include <tbb/global_control.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace halfulp::bench {

/// Restricts vector kernels to one instruction set; 0 stands for the CPU's best.
class InstructionSet {
 public:
  explicit InstructionSet(std::int64_t target) { use(target); }
  ~InstructionSet() { use(0); }
  InstructionSet(const InstructionSet&) = delete;
  InstructionSet& operator=(const InstructionSet&) = delete;

 private:
  static void use(std::int64_t target);
};

/// This CPU's best, as 0, and AVX2 beside AVX-512.
std::vector<std::int64_t> instruction_sets();

std::string name_of_set(std::int64_t target);

/// Skips a benchmark that needs more cores than there are.
inline bool too_few_cores(benchmark::State& state, int threads) {
  if (std::thread::hardware_concurrency() >= static_cast<unsigned>(threads)) return false;
  state.SkipWithError("fewer cores than threads");
  return true;
}

/// Limits parallel loops to a number of threads while it lives.
class Threads {
 public:
  explicit Threads(int count)
      : control_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(count)) {}

 private:
  tbb::global_control control_;
};

/// Registers a benchmark that is timed by the clock.
inline void add(const std::string& name, const std::function<void(benchmark::State&)>& f) {
  benchmark::RegisterBenchmark(name.c_str(), f)->UseRealTime();
}

}  // namespace halfulp::bench
