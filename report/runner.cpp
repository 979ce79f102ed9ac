#include <halfulp/report/runner.hpp>

#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/suite.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/report/trace.hpp>
#include <halfulp/support/work.hpp>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <thread>

namespace halfulp {

Channel& Trace::channel(const Task& task) {
  for (Channel& c : channels_)
    if (recording::same(c.task, task)) return c;
  channels_.push_back({task, limit_, {}, {}, {}});
  return channels_.back();
}

void Trace::append(const Trace& other) {
  for (const Channel& theirs : other.channels_) {
    Channel& ours = channel(theirs.task);
    const auto extend = [&](std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& from) {
      const std::size_t room = limit_ - std::min(limit_, to.size());
      to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(std::min(room, from.size())));
    };
    extend(ours.a, theirs.a);
    extend(ours.b, theirs.b);
    extend(ours.c, theirs.c);
  }
}

bool Trace::is_full() const {
  return !channels_.empty() &&
         std::all_of(channels_.begin(), channels_.end(), [](const Channel& c) { return c.a.size() >= c.limit; });
}

bool Trace::has_room_for(const Trace& other) const {
  return std::any_of(other.channels_.begin(), other.channels_.end(), [&](const Channel& theirs) {
    const auto ours = std::find_if(channels_.begin(), channels_.end(),
                                   [&](const Channel& c) { return recording::same(c.task, theirs.task); });
    return ours == channels_.end() || ours->a.size() < limit_;
  });
}

Arithmetic::Arithmetic(const FloatFormat& format, const Rounding& rounding, Trace* trace, Flags* raised)
    : format_(format),
      rounding_(rounding),
      trace_(rounding.mode == RoundingMode::stochastic ? nullptr : trace),
      raised_(raised) {}

std::uint64_t Arithmetic::run(Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                              std::uint64_t random) {
  stop_if_interrupted();
  if (trace_) {
    Channel*& channel = channels_[static_cast<std::size_t>(operation)];
    if (!channel) channel = &trace_->channel({operation, format_, format_, rounding_});
    channel->record(a, b, c);
  }
  FoundOperation& found = found_[static_cast<std::size_t>(operation)];
  if (!found) found = find_operation(operation, format_);
  return noted(found(format_, rounding_, a, b, c, random));
}

std::uint64_t Arithmetic::convert_from(const NumberType& from, std::uint64_t code, std::uint64_t random) {
  stop_if_interrupted();
  Channel*& channel = channels_[static_cast<std::size_t>(Operation::convert)];
  if (!conversion_ || from_ != from) {
    from_ = from;
    conversion_ = find_conversion(from, format_);
    if (trace_) channel = &trace_->channel({Operation::convert, from, format_, rounding_});
  }
  if (channel) channel->record(code);
  return noted(conversion_(from_, format_, rounding_, code, random));
}

std::uint64_t Arithmetic::encode(double value, std::uint64_t random) {
  return convert_from(fp64, std::bit_cast<std::uint64_t>(value), random);
}

namespace {

/// How much of the progress bar is the experiment's own; the replays share the rest.
constexpr double experiment_share = 0.9;

TaskComparison skipped(const Device& device, const Task& task, std::string reason) {
  TaskComparison comparison;
  comparison.backend = device.name();
  comparison.independence = device.independence();
  comparison.task = task;
  comparison.skipped = std::move(reason);
  return comparison;
}

int threads_of(const RunOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void replay(const Trace& trace, const RunOptions& options, const std::function<void(double)>& progress,
            Report& report) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, trace.channels().size() * options.backends.size()));
  double done = 0;
  for (const Device* device : options.backends) {
    if (device == &emulated_device()) continue;
    const Support here = device->available();
    std::string reason = here.reason;  // why it is not asked any more
    for (const Channel& channel : trace.channels()) {
      progress(experiment_share + (1 - experiment_share) * done++ / total);
      if (reason.empty()) try {
          report.comparison(compare(*device, channel.task, {channel.a, channel.b, channel.c}));
          continue;
        } catch (const DeviceFailure& failure) { reason = failure.what(); }
      report.comparison(skipped(*device, channel.task, reason));
    }
  }
}

}  // namespace

void require_available(const Device& device) {
  if (const Support here = device.available(); !here.yes)
    throw BackendMissing("backend '" + std::string(device.name()) + "' is not here: " + here.reason);
}

std::vector<const Device*> choose_backends(const std::optional<std::string>& given) {
  if (!given) return {devices().begin(), devices().end()};
  const std::string& names = *given;
  std::vector<const Device*> chosen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const Device& device = find_device(names.substr(begin, end - begin));
    if (std::find(chosen.begin(), chosen.end(), &device) != chosen.end())
      throw std::invalid_argument("backend '" + std::string(device.name()) + "' is named twice");
    require_available(device);
    chosen.push_back(&device);
    begin = end + 1;
  }
  return chosen;
}

namespace {

bool needs_operands(const RunOptions& options) {
  return std::any_of(options.backends.begin(), options.backends.end(),
                     [](const Device* device) { return device != &emulated_device(); });
}

/// Runs the experiment and hands its trace to `then`, on as many threads as asked for.
Report run_traced(
    const Experiment& experiment, const Config& config, const RunOptions& options, bool only_operands,
    const std::function<void(const std::function<void(double)>& progress, Trace& trace, Report& report)>& then) {
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<std::size_t>(threads_of(options)));
  tbb::task_arena arena(
      threads_of(options));  // as many as asked for, even beyond the cores: --threads 2 means two everywhere

  const auto progress = [&](double fraction) {
    stop_if_interrupted();
    if (options.progress) options.progress(fraction);
  };
  Report report{std::string(experiment.name), std::string(experiment.title), config};
  arena.execute([&] {
    // Where no backend is asked for, nobody reads operands.
    Trace trace(only_operands || needs_operands(options) ? Trace().limit() : 0);
    Run run{report, trace, [&](double fraction) { progress(experiment_share * std::clamp(fraction, 0.0, 1.0)); },
            options.note};
    run.only_operands = only_operands;
    run.source = options.source;
    run.with_report = [&](const Experiment& other, const Config& its, double from, double to,
                          const std::function<void(const Report&)>& use) {
      if (const Report* const made = options.made_before ? options.made_before(other.name, its.to_json()) : nullptr)
        return use(*made);
      Report now{std::string(other.name), std::string(other.title), its};
      Trace unused(0);
      Run inner{now, unused, [&](double fraction) { run.progress(from + (to - from) * fraction); }, options.note,
                run.with_report};
      inner.source = options.source;
      other.run(its, inner);
      use(now);
    };
    experiment.run(config, run);
    then(progress, trace, report);
    progress(1);
  });
  return report;
}

}  // namespace

Trace operands_of(const Experiment& experiment, const Config& config, const RunOptions& options) {
  Trace kept;
  run_traced(experiment, config, options, true, [&](const auto&, Trace& trace, Report&) { kept = std::move(trace); });
  return kept;
}

void compute_trials(const Experiment& experiment, const Config& config, const RunOptions& options) {
  run_traced(experiment, config, options, false, [](const auto&, const Trace&, const Report&) {});
}

Report run_experiment(const Experiment& experiment, const Config& config, const RunOptions& options) {
  Report report = run_traced(experiment, config, options, false, [&](const auto& progress, Trace& trace, Report& r) {
    r.finding(finding_of(experiment, r.results()));
    replay(trace, options, progress, r);
  });
  report.environment(describe_environment(threads_of(options), options.command, options.backends));
  return report;
}

}  // namespace halfulp
