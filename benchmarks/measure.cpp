#include "measure.hpp"

#include "copies.hpp"
#include "running.hpp"
#include "work.hpp"

#include <benchmark/benchmark.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <set>
#include <tuple>

namespace halfulp::bench {
namespace {

void time(benchmark::State& state, const Row& row, const Operands& operands, const Run& run) {
  for (auto _ : state) {
    run(operands);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(row.size.count));
  state.counters["elements"] = static_cast<double>(row.size.count);
  state.counters["bytes"] = row.bytes();
}

void add_ours(const Row& row, const std::string& who, const Run& run, std::int64_t target) {
  add(row.name() + "/" + who, [=](benchmark::State& state) {
    if (too_few_cores(state, row.threads)) return;
    const Operands operands = prepare(row);
    const InstructionSet set(target);
    const Threads threads(row.threads);
    run(operands);  // pages, caches and threads are there when the clock starts
    time(state, row, operands, run);
  });
}

/// f(kernel) for the kernels that do a row.
template <class F>
void each_kernel(const Peer& peer, const Row& row, F f) {
  for (const Kernel& kernel : peer.kernels)
    if (kernel.work == row.work && kernel.format == row.format && kernel.mode == row.mode) f(kernel);
}

/// `compared`: the results are to be ours.
void add_other(const Row& row, const std::string& who, const Kernel& kernel, bool compared) {
  const Run run = [f = kernel.run](const Operands& o) { f(o.in.data(), o.out, o.count); };
  add(row.name() + "/" + who, [=, ours = array_function(row)](benchmark::State& state) {
    const Operands operands = prepare(row);
    const std::size_t differ = compared ? differing(row, operands, run, ours) : 0;
    run(operands);
    time(state, row, operands, run);
    state.counters["differ"] = static_cast<double>(differ);
  });
}

void add_limit(int bytes, const Size& size, int threads, const std::string& who,
               void (*copy)(const std::byte*, std::byte*, std::size_t)) {
  const std::string name = "limit/" + std::to_string(bytes) + "/" + std::string(size.name) + "/" +
                           std::to_string(threads) + "/" + who;
  add(name, [=](benchmark::State& state) {
    if (too_few_cores(state, threads)) return;
    // As many bytes are read as written. The arrays of any row of fp16 are long enough.
    const Operands operands = prepare({"quantize", "fp16", "nearest-even", size});
    const std::size_t total = size.count * static_cast<std::size_t>(bytes) / 2;
    const auto piece = [&](std::size_t begin, std::size_t end) {
      copy(static_cast<const std::byte*>(operands.in[0]) + begin, static_cast<std::byte*>(operands.out) + begin,
           end - begin);
    };
    const Threads control(threads);
    for (auto _ : state) {
      if (threads == 1) piece(0, total);
      else
        tbb::parallel_for(tbb::blocked_range<std::size_t>(0, total, 1 << 17),
                          [&](const auto& r) { piece(r.begin(), r.end()); });
      benchmark::ClobberMemory();
    }
    state.counters["elements"] = static_cast<double>(size.count);
    state.counters["bytes"] = bytes;
  });
}

/// Whether to measure the scalar functions. They take the same time in all sizes and in all modes but the stochastic
/// one.
bool with_scalars(const Row& row) {
  if (row.data != "normal" || row.threads != 1 || row.is_block()) return false;
  return row.is_conversion() ? row.size.name == "L1" : row.mode == "nearest-even" || row.mode == "stochastic";
}

}  // namespace

void register_rows(const std::vector<Row>& rows, const std::vector<Peer>& peers, const Peer& yardsticks) {
  std::set<std::tuple<int, std::size_t, int>> moved;
  for (const Row& row : rows) {
    if (moved.emplace(row.bytes(), row.size.count, row.threads).second) {
      add_limit(row.bytes(), row.size, row.threads, "memcpy", copy_by_memcpy);
      add_limit(row.bytes(), row.size, row.threads, "plain loop", copy_by_loop);
    }
    for (const std::int64_t target : instruction_sets())
      add_ours(row, "ours " + name_of_set(target), array_function(row), target);
    if (with_scalars(row)) add_ours(row, "scalar", scalar_function(row), 0);
    if (row.threads > 1) continue;
    if (row.data == "normal")
      each_kernel(yardsticks, row, [&](const Kernel& kernel) { add_other(row, yardsticks.name, kernel, false); });
    for (const Peer& peer : peers)
      each_kernel(peer, row, [&](const Kernel& kernel) { add_other(row, peer.name, kernel, true); });
  }
}

}  // namespace halfulp::bench
