// Trials: the pieces of an experiment that take its time. Each can be computed alone.
//
// An experiment hands the pieces of one stage to `trials`. Without a store they are computed in parallel. With a store,
// the records that it has are read, the others are computed and kept. The results are the same to the last bit.
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/report/trial_store.hpp>
#include <halfulp/support/record.hpp>

#include <atomic>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace halfulp {

/// What a run does with trials: Run::source.
struct TrialSource {
  const TrialStore* store = nullptr;
  /// Which trials this process computes, by key and by place in their stage; those that the store has are read anyway.
  /// Empty: all.
  std::function<bool(const std::string& key, std::size_t place)> computes = {};
  /// Trials that others compute are waited for; otherwise they end the run (TrialsMissing).
  bool waits = false;
  /// Nothing is computed. Otherwise damaged records are computed again also where they are others'.
  bool only_lists = false;
  /// Told of each trial of a stage, in order, before any is computed; whether its record is there and whole. May be
  /// empty.
  std::function<void(const std::string& key, const Trial& trial, bool there)> seen = {};
  /// Told of each that was computed and kept here; from several threads, one at a time. May be empty.
  std::function<void(const std::string& key, const Trial& trial)> computed = {};
};

/// The run cannot go on: a stage lacks trials that this process does not compute.
struct TrialsMissing : std::runtime_error {
  TrialsMissing(const TrialKind& kind, std::size_t missing, std::size_t of);
  std::size_t missing;
};

/// How one stage computes, writes and reads its trials.
struct TrialWork {
  /// Operands that backends shall see go into `trace`. `stop` becomes true when another trial has failed: long ones
  /// then throw Interrupted.
  std::function<void(std::size_t i, Trace& trace, const std::atomic<bool>& stop)> compute;
  std::function<Json(std::size_t i)> write;
  /// Throws std::invalid_argument for a record that `write` does not write: it is computed again.
  std::function<void(std::size_t i, const Json& record, const std::string& where)> read;
};

/// One stage. Adds the traces of all trials to the run's, in order. With progress from `from` to `to`, unless they are
/// equal. Throws what the trials throw, the label before it in errors of input, TrialsMissing and Interrupted.
void run_trials(Run& run, const TrialKind& kind, std::span<const Trial> trials, const TrialWork& work, double from = 0,
                double to = 0);

/// The same for records with fields (support/record.hpp): {f(0, trace), f(1, trace), ...}.
template <Record R, class F>
std::vector<R> trials(Run& run, const TrialKind& kind, std::span<const Trial> of, double from, double to, F&& f) {
  std::vector<R> results(of.size());
  run_trials(run, kind, of,
             {[&](std::size_t i, Trace& trace, const std::atomic<bool>&) { results[i] = f(i, trace); },
              [&](std::size_t i) { return record_json<RecordLayout::list>(results[i]); },
              [&](std::size_t i, const Json& record, const std::string& where) {
                results[i] = record_of<R, RecordLayout::list>(record, where);
              }},
             from, to);
  return results;
}

/// A digest of numbers on which trials depend: 16 hexadecimal digits, for items.
std::string digest_of(std::span<const double> numbers);

/// A trace in a record: every task with all that decides its results, and its operands.
Json trace_to_json(const Trace& trace);
/// Throws std::invalid_argument for what trace_to_json does not write. `limit` is the new trace's.
Trace trace_from_json(const Json& json, const std::string& where, std::size_t limit);

}  // namespace halfulp
