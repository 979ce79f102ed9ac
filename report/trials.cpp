#include <halfulp/report/trials.hpp>

#include <halfulp/evidence/suite.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

namespace halfulp {

TrialsMissing::TrialsMissing(const TrialKind& kind, std::size_t missing_, std::size_t of)
    : std::runtime_error(fmt::format("{} of {} trials of {} are not there yet", missing_, of, kind.folder())),
      missing(missing_) {}

std::string digest_of(std::span<const double> numbers) {
  return fmt::format("{:016x}", verify::chunk_digest(std::as_bytes(numbers)));
}

// Traces as JSON.

template <class V>
void fields(V& v, Rounding& r) {
  v("mode", r.mode, named_in(rounding_modes));
  v("overflow", r.overflow, named_in(overflow_rules), unless(r.overflow, Overflow::ieee));
  v("flush_inputs", r.flush_inputs, unless(r.flush_inputs, false));
  v("flush_outputs", r.flush_outputs, unless(r.flush_outputs, false));
  v("tininess", r.tininess, named_in(tininess_rules), unless(r.tininess, Tininess::after));
  v("nan", r.nan, named_in(nan_rules), unless(r.nan, NanRule::canonical));
  v("int_overflow", r.int_overflow, named_in(int_overflow_rules), unless(r.int_overflow, IntOverflow::saturate));
  v("integer_inexact", r.integer_inexact, unless(r.integer_inexact, false));
  v("variant", r.variant, numbered_to(StochasticVariant::nearest_up), unless(r.variant, StochasticVariant::truncate));
  v("random_bits", r.random_bits, whole(1, max_random_bits), unless(r.random_bits, 32));
}
template <class V>
void fields(V& v, Task& t) {
  const auto type = spelled(parse_number_type, number_type_name, "a type of numbers");
  v("operation", t.operation,
    spelled(parse_operation, [](Operation o) { return std::string(info(o).name); }, "an operation"));
  v("from", t.from, type);
  v("to", t.to, type);
  v("rounding", t.rounding);
}

Json trace_to_json(const Trace& trace) {
  Json all = Json::array();
  for (const Channel& channel : trace.channels())
    all.push_back({{"task", record_json(channel.task)}, {"a", channel.a}, {"b", channel.b}, {"c", channel.c}});
  return all;
}

Trace trace_from_json(const Json& json, const std::string& where, std::size_t limit) {
  Trace trace(limit);
  const JsonValue list(json, where);
  for (const Json& one : list.list()) {
    Members members(one, where);
    const Task task = record_of<Task>(members.need("task"), members.at("task"));
    std::vector<std::uint64_t> x[3];
    for (std::size_t k = 0; k < 3; ++k) {
      const char name[] = {static_cast<char>('a' + k), 0};
      const JsonValue codes(members.need(name), members.at(name));
      for (const Json& code : codes.list()) {
        if (!code.is_number_unsigned()) codes.refuse("a list of code words");
        x[k].push_back(code.get<std::uint64_t>());
      }
    }
    members.finish();
    const auto arity = static_cast<std::size_t>(info(task.operation).arity);
    for (std::size_t k = 1; k < 3; ++k)
      if (x[k].size() != (k < arity ? x[0].size() : 0))
        throw std::invalid_argument(fmt::format("{}: operands of unequal number", where));
    Channel& channel = trace.channel(task);
    channel.a = std::move(x[0]), channel.b = std::move(x[1]), channel.c = std::move(x[2]);
  }
  return trace;
}

namespace {

/// Which tasks a trace has, and how many operands of each: what decides whether another takes any of them.
struct Outline {
  struct Count {
    Task task;
    std::uint64_t operands = 0;
  };
  std::vector<Count> channels;
};
template <class V>
void fields(V& v, Outline::Count& c) {
  v("task", c.task);
  v("operands", c.operands);
}
template <class V>
void fields(V& v, Outline& o) {
  v("channels", o.channels);
}

Outline outline_of(const Trace& trace) {
  Outline outline;
  for (const Channel& channel : trace.channels()) outline.channels.push_back({channel.task, channel.a.size()});
  return outline;
}

/// The operands of a stage's trials as the run's trace takes them: in the order of trials, until it is full. Most
/// trials come too late for that; theirs are dropped as soon as those before are known, and never kept in a store.
class Operands {
 public:
  Operands(const Trace& all, std::size_t count)
      : limit_(all.limit()), begun_(outline_of(all)), taken_(begun_), pieces_(count) {}

  /// Of trial i; its trace is not there where its record was read. Once for each.
  void put(std::size_t i, Outline outline, std::optional<Trace> trace) {
    const std::lock_guard lock(mutex_);
    if (trace && !can_be_needed(i, outline)) trace.reset();
    pieces_[i] = {std::move(outline), std::move(trace), true};
    for (; next_ < pieces_.size() && pieces_[next_].known; ++next_) {
      Piece& piece = pieces_[next_];
      if (take(piece.outline)) needed_.push_back(next_);
      else piece.trace.reset();
    }
  }
  /// Whether the run may take something of trial i: what is known of those before does not fill its tasks yet. Then its
  /// operands are worth keeping, whoever computes the others.
  bool may_take(std::size_t i, const Outline& outline) {
    const std::lock_guard lock(mutex_);
    return can_be_needed(i, outline);
  }
  /// Those that the run takes something of, once all trials are known.
  const std::vector<std::size_t>& needed() const { return needed_; }
  const Trace* of(std::size_t i) const { return pieces_[i].trace ? &*pieces_[i].trace : nullptr; }
  void give(std::size_t i, Trace trace) { pieces_[i].trace = std::move(trace); }
  void append_to(Trace& all) const {
    for (const std::size_t i : needed_) all.append(*pieces_[i].trace);
  }

 private:
  bool can_be_needed(std::size_t i, const Outline& outline) const {
    if (limit_ == 0) return false;
    return std::any_of(outline.channels.begin(), outline.channels.end(), [&](const Outline::Count& mine) {
      std::uint64_t before = 0;
      bool known = false;
      const auto add = [&](const std::vector<Outline::Count>& channels) {
        for (const Outline::Count& theirs : channels)
          if (recording::same(theirs.task, mine.task)) before += theirs.operands, known = true;
      };
      add(begun_.channels);
      for (std::size_t k = 0; k < i && !(known && before >= limit_); ++k) add(pieces_[k].outline.channels);
      return !known || before < limit_;
    });
  }

  /// Whether there is room for any of it, which is then taken.
  bool take(const Outline& outline) {
    bool some = false;
    for (const Outline::Count& theirs : outline.channels) {
      const auto ours = std::find_if(taken_.channels.begin(), taken_.channels.end(),
                                     [&](const Outline::Count& c) { return recording::same(c.task, theirs.task); });
      if (limit_ == 0 || (ours != taken_.channels.end() && ours->operands >= limit_)) continue;
      some = true;
      if (ours == taken_.channels.end()) taken_.channels.push_back(theirs);
      else ours->operands += theirs.operands;
    }
    return some;
  }

  struct Piece {
    Outline outline;
    std::optional<Trace> trace;
    bool known = false;
  };
  std::mutex mutex_;
  std::uint64_t limit_;
  Outline begun_, taken_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> needed_;
  std::size_t next_ = 0;
};

/// One run of a stage.
class Stage {
 public:
  Stage(Run& run, const TrialKind& kind, std::span<const Trial> trials, const TrialWork& work, double from, double to)
      : run_(run),
        kind_(kind),
        trials_(trials),
        work_(work),
        from_(from),
        to_(to),
        operands_(run.trace, trials.size()),
        there_(trials.size()) {
    std::map<std::string, std::size_t> first;
    for (const Trial& trial : trials) {
      keys_.push_back(trial.key(kind));
      first_.push_back(first.emplace(keys_.back(), first_.size()).first->second);
    }
  }

  void go() {
    const TrialSource* const source = run_.source;
    std::vector<std::size_t> missing(trials_.size());
    std::iota(missing.begin(), missing.end(), std::size_t{0});
    if (!source || !source->store) {
      each(missing, [&](std::size_t i) { compute(i, nullptr); });
      return operands_.append_to(run_.trace);
    }
    const TrialStore& store = *source->store;
    complete(
        kind_, keys_, first_, missing, [&](const auto& places) { return read(store, places); },
        [&](std::size_t i) { compute(i, &store); });
    add_operands(store);
  }

 private:
  /// Calls f for each of them. An exception that left the loop would cancel the loops inside the other trials, which
  /// then leave their results as they are: it waits until these have ended.
  template <class F>
  void each(const std::vector<std::size_t>& places, F&& f) {
    tbb::parallel_for(std::size_t{0}, places.size(), [&](std::size_t k) {
      if (failed_) return;
      const std::size_t i = places[k];
      std::exception_ptr mine;
      try {
        stop_if_interrupted();
        f(i);
        tell();
        return;
      } catch (const std::invalid_argument& error) {
        const std::string& label = trials_[i].label;
        mine = std::make_exception_ptr(std::invalid_argument((label.empty() ? "" : label + ": ") + error.what()));
      } catch (...) { mine = std::current_exception(); }
      const std::lock_guard lock(telling_);
      if (!failure_) failure_ = mine;
      failed_ = true;
    });
    if (failure_) std::rethrow_exception(failure_);
    if (tbb::is_current_task_group_canceling()) throw Interrupted{};
  }

  /// Has `read` what the store has of `places`, computes those of the others that are this process's, and waits for
  /// the rest, or throws TrialsMissing. What is there twice is computed once, and read again.
  template <class Read, class Compute>
  void complete(const TrialKind& kind, const std::vector<std::string>& keys, const std::vector<std::size_t>& first,
                const std::vector<std::size_t>& places, Read&& read, Compute&& compute) {
    const TrialSource& source = *run_.source;
    std::map<std::size_t, std::size_t> place_of;
    for (const std::size_t i : places)
      if (first[i] == i) place_of.emplace(i, place_of.size());
    if (source.computes && !source.waits && !source.only_lists && !source.seen)
      complete_own(kind, keys, first, places, place_of, read, compute);
    std::vector<std::size_t> missing = read(places);
    const auto is_missing = [&](std::size_t i) { return std::binary_search(missing.begin(), missing.end(), i); };
    if (source.seen)
      for (const std::size_t i : places)
        if (first[i] == i) source.seen(keys[i], trials_[i], !is_missing(i));
    while (!missing.empty()) {
      std::vector<std::size_t> own;
      for (const std::size_t i : missing)
        if (first[i] == i && !source.only_lists &&
            (!source.computes || source.computes(keys[i], place_of[i]) || damaged_.contains(keys[i])))
          own.push_back(i);
      compute_all(own, keys, compute);
      missing = read(missing);
      if (missing.empty()) return;
      if (!source.waits || source.only_lists) {
        const auto distinct = std::count_if(missing.begin(), missing.end(),
                                            [&](std::size_t i) { return first[i] == i; });
        throw TrialsMissing(kind, static_cast<std::size_t>(distinct), place_of.size());
      }
      // Only the first is asked for, so that a hundred that wait are no burden to a server of files.
      do {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        stop_if_interrupted();
      } while (!source.store->has(kind, trials_[missing.front()]));
      missing = read(missing);
    }
  }

  template <class Compute>
  void compute_all(const std::vector<std::size_t>& places, const std::vector<std::string>& keys, Compute&& compute) {
    each(places, [&](std::size_t i) {
      compute(i);
      const std::lock_guard lock(telling_);
      damaged_.erase(keys[i]);
      if (run_.source->computed) run_.source->computed(keys[i], trials_[i]);
    });
  }

  /// The same where others' records are absent, and stay so: then they cannot all be put together, and nobody reads
  /// those that are there. A part of a large stage would otherwise read all of it.
  template <class Read, class Compute>
  void complete_own(const TrialKind& kind, const std::vector<std::string>& keys, const std::vector<std::size_t>& first,
                    const std::vector<std::size_t>& places, const std::map<std::size_t, std::size_t>& place_of,
                    Read&& read, Compute&& compute) {
    std::vector<std::size_t> own;
    std::size_t absent = 0;
    for (const std::size_t i : places) {
      if (first[i] != i) continue;
      if (run_.source->computes(keys[i], place_of.at(i))) own.push_back(i);
      else absent += !run_.source->store->has(kind, trials_[i]);
    }
    if (absent == 0) return;
    compute_all(read(own), keys, compute);
    throw TrialsMissing(kind, absent, place_of.size());
  }

  std::string operands_name() const { return std::string(kind_.name) + "_operands"; }

  /// What the run's trace takes: records of their own, of the few trials that it takes anything of.
  void add_operands(const TrialStore& store) {
    const std::string name = operands_name();
    const TrialKind kind{name, kind_.version};
    const std::vector<std::size_t>& needed = operands_.needed();
    std::vector<std::string> keys(trials_.size());
    std::vector<std::size_t> first(trials_.size());
    for (const std::size_t i : needed) {
      keys[i] = trials_[i].key(kind), first[i] = i;
      if (operands_.of(i) && !store.has(kind, trials_[i]))
        store.keep(kind, trials_[i], trace_to_json(*operands_.of(i)));
    }
    complete(
        kind, keys, first, needed,
        [&](const std::vector<std::size_t>& places) {
          each(places, [&](std::size_t i) {
            if (operands_.of(i)) return;
            guarded(store, keys[i], [&] {
              const std::optional<Json> record = store.find(kind, trials_[i]);
              if (record) operands_.give(i, trace_from_json(*record, keys[i], Trace().limit()));
            });
          });
          std::vector<std::size_t> missing;
          for (const std::size_t i : places)
            if (!operands_.of(i)) missing.push_back(i);
          return missing;
        },
        [&](std::size_t i) {
          Trace trace;
          work_.compute(i, trace, failed_);
          store.keep(kind, trials_[i], trace_to_json(trace));
          operands_.give(i, std::move(trace));
        });
    operands_.append_to(run_.trace);
  }

  /// A record that is not what it should be counts as none.
  template <class F>
  void guarded(const TrialStore& store, const std::string& key, F&& f) {
    try {
      f();
    } catch (const std::invalid_argument& problem) {
      const std::lock_guard lock(telling_);
      if (damaged_.insert(key).second && store.damaged)
        store.damaged(std::string(problem.what()) + (run_.source->only_lists ? "" : "; it is computed again"));
    }
  }

  void compute(std::size_t i, const TrialStore* store) {
    // A record is for all runs: also for those that show backends more than this one does.
    Trace trace = store ? Trace() : Trace(run_.trace.limit());
    work_.compute(i, trace, failed_);
    Outline outline = outline_of(trace);
    if (store) {
      store->keep(kind_, trials_[i], {{"result", work_.write(i)}, {"operands", record_json(outline)}});
      if (operands_.may_take(i, outline))
        store->keep({operands_name(), kind_.version}, trials_[i], trace_to_json(trace));
    }
    operands_.put(i, std::move(outline), std::move(trace));
    there_[i] = 1;
  }

  /// Reads those that the store has. Returns the others.
  std::vector<std::size_t> read(const TrialStore& store, const std::vector<std::size_t>& places) {
    each(places, [&](std::size_t i) {
      if (there_[i]) return;
      guarded(store, keys_[i], [&] {
        const std::optional<Json> record = store.find(kind_, trials_[i]);
        if (!record) return;
        const std::string where = store.folder() + ": " + keys_[i];
        Members members(*record, where);
        const Json &result = members.need("result"), &operands = members.need("operands");
        members.finish();
        auto outline = record_of<Outline>(operands, members.at("operands"));
        work_.read(i, result, members.at("result"));
        operands_.put(i, std::move(outline), std::nullopt);
        there_[i] = 1;
      });
    });
    std::vector<std::size_t> missing;
    for (const std::size_t i : places)
      if (!there_[i]) missing.push_back(i);
    return missing;
  }

  void tell() {
    if (from_ == to_) return;
    const std::unique_lock lock(telling_, std::try_to_lock);
    if (!lock.owns_lock()) return;  // another is telling
    const auto done = static_cast<double>(std::count(there_.begin(), there_.end(), 1));
    run_.progress(from_ + (to_ - from_) * done / static_cast<double>(there_.size()));
  }

  Run& run_;
  const TrialKind& kind_;
  std::span<const Trial> trials_;
  const TrialWork& work_;
  double from_, to_;
  Operands operands_;
  std::vector<std::string> keys_;
  std::vector<std::size_t> first_;  ///< of each trial's key: the place where it comes first
  std::vector<std::atomic<char>> there_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::set<std::string> damaged_;  ///< keys of records that were there and could not be used
  std::mutex telling_;
};

}  // namespace

void run_trials(Run& run, const TrialKind& kind, std::span<const Trial> trials, const TrialWork& work, double from,
                double to) {
  Stage(run, kind, trials, work, from, to).go();
  if (from != to) run.progress(to);
}

}  // namespace halfulp
