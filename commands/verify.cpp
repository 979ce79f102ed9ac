#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/part.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/verification.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/report/trial_store.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace halfulp::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct VerifyArguments {
  std::string operation, format, to, round = "nearest-even", overflow = "ieee", against, state, ledger, store;
  std::optional<std::string> part;
  bool flush_inputs = false, exhaustive = false, sampled = false, json = false, quiet = false;
  std::uint64_t sample = std::uint64_t{1} << 24, addends = 0, seed = 1;
  int threads = 0;
};

/// The format that an option names. Integers, which eval converts, get their own message.
FloatFormat float_format(const char* option, const std::string& name) {
  const NumberType type = parse_number_type(name);
  if (const auto* format = std::get_if<FloatFormat>(&type)) return *format;
  throw std::invalid_argument(fmt::format(
      "{} is '{}', an integer type: verify takes floating-point formats only; accepted: a format such as fp16 or "
      "e5m3 (see halfulp formats)",
      option, name));
}

Task task_without_mode(const VerifyArguments& options) {
  Task task;
  task.operation = parse_operation(options.operation);
  const bool converts = task.operation == Operation::convert;
  if (converts && options.to.empty()) throw std::invalid_argument("convert needs --to, a floating-point format");
  if (!converts && !options.to.empty())
    throw std::invalid_argument(
        fmt::format("--to belongs to convert; {} gives its operands' format", options.operation));
  task.from = float_format("--format", options.format);
  task.to = converts ? float_format("--to", options.to) : std::get<FloatFormat>(task.from);
  task.rounding.overflow = value_named(overflow_rules, "overflow rule", options.overflow);
  task.rounding.flush_inputs = options.flush_inputs;
  if (const std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  return task;
}

/// The mode asked for, or every deterministic one.
std::vector<RoundingMode> modes(const std::string& name) {
  std::vector<RoundingMode> all;
  for (const auto& row : rounding_modes)
    if (row.value != RoundingMode::stochastic && (name == "all" || parse_rounding_mode(name) == row.value))
      all.push_back(row.value);
  if (!all.empty()) return all;
  throw std::invalid_argument("verify compares deterministic modes, not stochastic; accepted: all, or one of them");
}

/// As many third operands as --addends says.
std::vector<std::uint64_t> addends_of(const Task& task, std::uint64_t count) {
  const auto& format = std::get<FloatFormat>(task.from);
  std::vector<std::uint64_t> addends = chosen_addends(format, count);
  if (addends.size() < count)
    throw std::invalid_argument(fmt::format("--addends is {}, but {} has {} boundary values; accepted: 1 to {}", count,
                                            number_type_name(task.from), addends.size(), addends.size()));
  return addends;
}

std::vector<Verification> verifications(const VerifyArguments& options) {
  Verification v;
  v.reference = &verify::find_reference_device(options.against);
  v.task = task_without_mode(options);
  const auto all_there_are = number_of_operands(v.task);
  const bool recorded = verify::is_recorded(*v.reference);
  if (recorded && (options.exhaustive || options.addends != 0 || options.sampled))
    throw std::invalid_argument(
        fmt::format("--against {} compares on what that device was asked; accepted: none of --exhaustive, "
                    "--addends, --sample and --seed",
                    shown(options.against)));
  if (options.exhaustive &&
      (!all_there_are || (*all_there_are > most_operands && !verify::takes_all_triples(*v.reference, v.task))))
    throw std::invalid_argument(
        fmt::format("{} has 2^{} inputs, --exhaustive takes 2^32 at most, and of fma to nearest of fp16 and bf16 "
                    "--against cuda 2^48; accepted: --sample N",
                    options.operation + " " + options.format,
                    std::get<FloatFormat>(v.task.from).storage_bits() * info(v.task.operation).arity));
  if (options.addends != 0) v.operands = pairs_with(v.task, addends_of(v.task, options.addends));
  else if (options.exhaustive) v.operands = all_operands(v.task);
  else if (!recorded) v.operands = sampled_operands(v.task, options.sample, options.seed);
  std::vector<Verification> all;
  for (const RoundingMode mode : modes(options.round)) {
    v.task.rounding.mode = mode;
    const Support support = v.reference->supports(v.task);
    v.skipped = support.reason;
    v.approximate = support.approximate;
    if (recorded) v.operands = verify::recorded_operands(v.task, options.against);
    all.push_back(v);
  }
  const Support here = v.reference->available();
  if (!here.yes) throw BackendMissing("skipped: " + here.reason);
  if (std::all_of(all.begin(), all.end(), [](const Verification& each) { return !each.skipped.empty(); }))
    throw BackendMissing("skipped: " + all.front().skipped);
  return all;
}

/// Chunks of verifications as trials of a store. A chunk counts for the program and the kind of processor that made it.
class StoredChunks {
 public:
  explicit StoredChunks(const VerifyArguments& options)
      : store_(open_store(options.store, TrialStore::IfAbsent::make)),
        part_(options.part ? part_named(*options.part) : Part{}) {
    const Json environment = describe_environment(1, "");
    for (const char* const name : {"cpu", "cpu_features", "compiler"}) machine_[name] = environment.at(name);
  }
  /// Fills in what the store has. Returns the other chunks of this process's part.
  std::vector<std::uint64_t> fill(Verification& v) const {
    std::vector<std::uint64_t> todo;
    for (std::uint64_t i = 0; i < verify::number_of_chunks(v.operands); ++i) {
      if (v.chunks.count(i) != 0) continue;
      stop_if_interrupted();
      bool damaged = false;
      try {
        if (const std::optional<Json> record = store_.find(kind, trial(v, i))) {
          verify::Chunk chunk = chunk_from_json(*record);
          if (chunk.index != i) throw std::invalid_argument(trial(v, i).key(kind) + ": another chunk");
          v.chunks.emplace(i, std::move(chunk));
          continue;
        }
      } catch (const std::exception& problem) {
        store_.damaged(std::string(problem.what()) + "; it is computed again");
        damaged = true;
      }
      if (damaged || part_.has(i)) todo.push_back(i);
    }
    return todo;
  }
  void keep(const Verification& v, const verify::Chunk& chunk) const {
    store_.keep(kind, trial(v, chunk.index), chunk_to_json(v.task, chunk));
  }

 private:
  static constexpr TrialKind kind{"verification", 1};
  Trial trial(const Verification& v, std::uint64_t chunk) const {
    return {"",
            {{"question", question(v)},
             {"program", program(v)},
             {"route", v.reference->supports(v.task).route},
             {"machine", machine_},
             {"chunk", chunk}}};
  }
  TrialStore store_;
  Part part_;
  Json machine_;
};

/// The run's progress: what is done, the bar, the state file now and then.
class Run {
 public:
  Run(const VerifyArguments& options, std::vector<Verification>& all)
      : options_(options), all_(all), bar_("verify", options.quiet) {
    if (!options.store.empty()) {
      stored_.emplace(options);
      for (Verification& v : all_)
        if (v.skipped.empty()) todo_.push_back(stored_->fill(v));
        else todo_.emplace_back();
    }
    for (const Verification& v : all_)
      if (v.skipped.empty()) total_ += v.operands.count - v.found().compared;
  }

  void run(Verification& v) {
    std::vector<std::uint64_t> todo;
    if (stored_) todo = todo_[static_cast<std::size_t>(&v - all_.data())];
    else
      for (std::uint64_t i = 0; i < verify::number_of_chunks(v.operands); ++i)
        if (v.chunks.count(i) == 0) todo.push_back(i);
    const auto reference = verify::make_reference(*v.reference, v.task, v.operands);
    const auto start = Clock::now();
    const double before = v.seconds;
    const auto time = [&] { v.seconds = before + std::chrono::duration<double>(Clock::now() - start).count(); };
    verify::verify_chunks(
        v.task, v.operands, *reference, todo, [this](std::uint64_t count) { advanced(count); },
        [&](verify::Chunk chunk) {
          if (stored_) stored_->keep(v, chunk);
          v.chunks.emplace(chunk.index, std::move(chunk));
          time();
          if (Clock::now() - saved_ > std::chrono::seconds(3)) save();
        });
    time();
    if (!v.complete()) return;  // the rest is others'
    if (!verify::has_canonical_nans(*v.reference)) v.nans = verify::compare_nans(v.task, v.operands, *v.reference);
    save();
  }

  void save() {
    if (!options_.state.empty()) save_state(options_.state, all_);
    saved_ = Clock::now();
  }

 private:
  /// From any thread.
  void advanced(std::uint64_t count) {
    stop_if_interrupted();
    const std::scoped_lock lock(mutex_);
    done_ += count;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count(),
                 rate = static_cast<double>(done_) / seconds;
    bar_.show(static_cast<double>(done_) / static_cast<double>(total_), rate * 1e-9,
              static_cast<double>(total_ - done_) / rate);
  }

  const VerifyArguments& options_;
  std::vector<Verification>& all_;
  ProgressBar bar_;
  std::optional<StoredChunks> stored_;
  std::vector<std::vector<std::uint64_t>> todo_;  ///< of each verification, with a store
  std::mutex mutex_;
  std::uint64_t done_ = 0, total_ = 0;
  Clock::time_point start_ = Clock::now(), saved_{};
};

/// After Ctrl-C: what is kept.
std::string interrupted_text(const VerifyArguments& options, const std::vector<Verification>& all) {
  const std::string& kept = options.state.empty() ? options.store : options.state;
  if (kept.empty()) return "halfulp: interrupted; nothing was kept (--state FILE or --store DIR keeps what is done)\n";
  std::uint64_t done = 0, total = 0;
  for (const Verification& v : all) {
    if (!v.skipped.empty()) continue;
    done += v.chunks.size();
    total += verify::number_of_chunks(v.operands);
  }
  return fmt::format("halfulp: interrupted; {} of {} chunks are done and kept in {}\n", done, total, kept);
}

void run_all(const VerifyArguments& options, std::vector<Verification>& all, int& status) {
  Run run(options, all);
  Json runs = Json::array();
  for (Verification& v : all) {
    if (v.skipped.empty()) run.run(v);
    if (v.skipped.empty() && !v.complete()) {
      const std::string text = fmt::format("{}: {} of {} chunks are there", v.task.description(), v.chunks.size(),
                                           verify::number_of_chunks(v.operands));
      if (v.fails()) status = exit_status::failed;
      if (options.json) runs.push_back({{"question", question(v)}, {"incomplete", text}});
      else write_output(text + (v.fails() ? ", and some differ\n" : "\n"));
      continue;
    }
    const Json entry = entry_of(v);
    if (options.json) runs.push_back(entry);
    else write_output(text_of(v, Style::of_output()));
    if (!v.skipped.empty()) continue;
    if (v.fails()) status = exit_status::failed;
    if (options.ledger.empty()) continue;
    for (const std::string& line : enter(options.ledger, entry)) {
      print_error(line);
      status = exit_status::failed;
    }
  }
  if (options.json) write_output(pretty(Json{{"verifications", std::move(runs)}}));
}

void verify_command(const VerifyArguments& options, int& status) {
  std::vector<Verification> all = verifications(options);
  if (!options.state.empty() && !options.store.empty())
    throw std::invalid_argument("--state and --store both keep what is done; accepted: one of them");
  if (!options.ledger.empty() && !options.store.empty() && same_file(options.ledger, options.store))
    throw std::invalid_argument(
        fmt::format("--store and --ledger are both {}; accepted: a folder and a file", shown(options.ledger)));
  if (options.part && options.store.empty())
    throw std::invalid_argument("--part needs --store DIR, where the parts come together");
  if (options.part) (void)part_named(*options.part);
  if (!options.ledger.empty()) {
    check_kept_file("--ledger", options.ledger);
    if (!options.state.empty() && same_file(options.ledger, options.state))
      throw std::invalid_argument(
          fmt::format("--state and --ledger are both '{}'; accepted: two files", options.ledger));
    read_ledger(options.ledger);
  }
  std::optional<FileLock> lock;  // until the last save: another run would go on from less than this one did
  if (!options.state.empty()) {
    check_kept_file("--state", options.state);
    lock.emplace(options.state, FileLock::IfTaken::refuse);
    load_state(options.state, all);
  }
  note_interrupts();
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int threads = options.threads > 0 ? options.threads : cores;
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  tbb::task_arena arena(threads);
  try {
    arena.execute([&] { run_all(options, all, status); });
  } catch (const DeviceFailure&) {
    if (!options.state.empty()) save_state(options.state, all);
    throw;
  } catch (const Interrupted&) {
    if (!options.state.empty()) save_state(options.state, all);
    write_error(interrupted_text(options, all));
    status = exit_status::interrupted;
  }
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto options = std::make_shared<VerifyArguments>();
  const auto file_name = [](const std::string& name) {
    return name.empty() || name == "-" ? "'" + name + "' is no file to keep anything in; accepted: the name of a file"
                                       : std::string();
  };
  std::string names;  // of what arrays have
  for (const Operation operation : array_operations) names += std::string(info(operation).name) + ", ";
  auto* command = app.add_subcommand(
      "verify", "compare array functions with an independent reference, on every input or a sample");
  command
      ->add_option("OP", options->operation,
                   names + "convert; others (rem, min, rsqrt, exp, ...) by their scalar functions")
      ->required();
  command->add_option("--format", options->format, "format of the operands: see `halfulp formats`")
      ->type_name("FORMAT")
      ->required();
  command->add_option("--to", options->to, "format of the result; only for convert")->type_name("FORMAT");
  command->add_option("--round", options->round, "a rounding mode, or all for every deterministic mode")
      ->type_name("MODE")
      ->capture_default_str();
  command->add_option("--overflow", options->overflow, "what overflow becomes: ieee, saturate")
      ->type_name("RULE")
      ->capture_default_str();
  command->add_flag("--flush-inputs", options->flush_inputs, "subnormal operands count as zero (DAZ)");
  command
      ->add_option(
          "--against", options->against,
          "oracle (rationals), x86 (this CPU), cuda (a GPU), third-party (the CUDA headers' host code), recorded:NAME "
          "(what a device answered earlier: see halfulp backends)")
      ->type_name("REFERENCE")
      ->required();
  auto* exhaustive = command->add_flag(
      "--exhaustive", options->exhaustive,
      "every input, if there are at most 2^32; on a GPU, also all 2^48 of fma in fp16 and bf16 to nearest even");
  add_number_option(*command, "--sample", options->sample, 1, std::uint64_t{1} << 40,
                    "number of inputs (all of them if there are fewer): first boundary cases, at most half of the "
                    "number, then random ones")
      ->default_str(std::to_string(options->sample))
      ->excludes(exhaustive);
  add_number_option(*command, "--addends", options->addends, 1, 340,
                    "of fma in formats of 16 bits or fewer: every pair of the first two operands with each of so many "
                    "third ones: first the ends of the range and 1, then other boundary values")
      ->excludes(exhaustive)
      ->excludes("--sample");
  add_number_option(*command, "--seed", options->seed, 0, UINT64_MAX, "of the sample")
      ->default_str("1")
      ->excludes("--addends");
  command
      ->add_option("--state", options->state,
                   "a file that keeps what is done; the same command then goes on from there")
      ->type_name("FILE")
      ->check(file_name);
  command
      ->add_option(
          "--store", options->store,
          "a folder that keeps each chunk of 2^24 inputs; runs of one program on processors of one kind share it")
      ->type_name("DIR")
      ->check(file_name);
  add_part_option(*command, options->part);
  command->add_option("--ledger", options->ledger, "a file that gets one entry per rounding mode")
      ->type_name("FILE")
      ->check(file_name);
  add_number_option(*command, "--threads", options->threads, 1, 1024,
                    "number of threads (default: one per core; the results do not depend on it)");
  command->add_flag("--json", options->json, "the summary as JSON");
  command->add_flag("--quiet", options->quiet, "no progress bar");
  command->footer(
      "Exit status: 0 no difference, 1 differences, 2 bad usage, 3 the reference is not here or breaks down, 130 "
      "interrupted.");
  command->callback([options, command, &status] {
    options->sampled = command->count("--sample") + command->count("--seed") != 0;
    verify_command(*options, status);
  });
}

}  // namespace halfulp::cli
