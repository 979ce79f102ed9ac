// `halfulp record`: what a device answers to the recording suite, kept in a folder.
#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/recording.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/terminal.hpp>

#include <halfulp/report/experiment.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/report/runner.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>

#include <unistd.h>

namespace halfulp::cli {
namespace {

namespace fs = std::filesystem;

struct RecordArguments {
  std::string backend, out;
  bool quick = false, quiet = false;
};

const Device& device_named(const std::string& name) {
  const Device& device = find_device(name, DeviceUse::record);
  const bool rehearsed = &device == &rehearsal_device();  // which its recording says
  if (device.independence() != "silicon" && !rehearsed)
    throw std::invalid_argument(
        fmt::format("--backend {}: no device ({}); accepted: x86, cuda, rehearsal", name, device.independence()));
  require_available(device);
  return device;
}

/// A folder beside the one asked for, which it becomes once it is complete; it vanishes otherwise.
class FolderInTheMaking {
 public:
  explicit FolderInTheMaking(const std::string& out) : target_(out) {
    if (target_.filename().empty()) target_ = target_.parent_path();  // "folder/"
    std::error_code error;
    if (fs::exists(fs::symlink_status(target_, error)))
      throw std::invalid_argument(fmt::format("--out {}: it is there already; accepted: a new folder", out));
    // In containers that share a folder all processes may have the same number.
    path_ = target_.parent_path() /
            fmt::format(".{}.{}-{:08x}.tmp", target_.filename().string(), ::getpid(), std::random_device{}());
    if (!fs::create_directory(path_, error))
      throw std::invalid_argument(
          fmt::format("--out {}: cannot make a folder there: {}", out, error ? error.message() : "it exists"));
  }
  FolderInTheMaking(const FolderInTheMaking&) = delete;
  FolderInTheMaking& operator=(const FolderInTheMaking&) = delete;
  ~FolderInTheMaking() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void keep() const {
    if (::rename(path_.c_str(), target_.c_str()) != 0)
      throw std::invalid_argument(fmt::format("cannot write {}: {}", target_.string(), std::strerror(errno)));
  }

 private:
  fs::path target_, path_;
};

/// Some of a channel's operands, each once, from its beginning to its end.
OperandColumns some_of(const Channel& channel) {
  constexpr std::size_t most = 64;
  const int arity = info(channel.task.operation).arity;
  const auto at = [](const std::vector<std::uint64_t>& column, std::size_t i) {
    return column.empty() ? 0 : column[i];
  };
  std::set<std::array<std::uint64_t, 3>> seen;
  OperandColumns all, some;
  for (std::size_t i = 0; i < channel.a.size(); ++i)
    if (seen.insert({at(channel.a, i), at(channel.b, i), at(channel.c, i)}).second)
      all.push(arity, at(channel.a, i), at(channel.b, i), at(channel.c, i));
  const std::size_t count = std::min(most, all.size());
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = k * all.size() / count;
    some.push(arity, all.a[i], at(all.b, i), at(all.c, i));
  }
  return some;
}

/// What experiments ask at their defaults. They run side by side, since some have nothing for a second thread.
std::vector<recording::Asked> asked_by_experiments(const std::function<void(double)>& progress) {
  const auto all = experiments();
  std::mutex telling;
  std::vector<double> done(all.size());
  const auto asked_by = parallel_map(all.size(), [&](std::size_t i) {
    RunOptions options;
    options.progress = [&, i](double fraction) {
      const std::lock_guard lock(telling);
      done[i] = fraction;
      progress(std::accumulate(done.begin(), done.end(), 0.0) / static_cast<double>(all.size()));
    };
    const Trace trace = operands_of(all[i], Config(all[i].parameters()), options);
    std::vector<recording::Asked> asked;
    for (const Channel& channel : trace.channels()) asked.push_back({"experiments", channel.task, some_of(channel)});
    return asked;
  });
  std::vector<recording::Asked> asked;
  for (const auto& its : asked_by) asked.insert(asked.end(), its.begin(), its.end());
  return asked;
}

void describe_origin(const Device& device, recording::Origin& origin) {
  const Json environment = describe_environment(0, "");
  origin.driver = origin.backend == "x86" ? microcode() : "unknown";
  origin.toolkit = environment.at("compiler");
  if (const cuda::Gpu* gpu = cuda::gpu_of(device)) {
    origin.driver = gpu->properties().driver;
    origin.toolkit = "CUDA runtime " + gpu->properties().runtime + ", " + origin.toolkit;
  }
  const std::string os = environment.at("os");
  origin.system = os.substr(0, os.find(','));  // the distribution; kernels do not round
  origin.program = version_text();
  origin.date = environment.at("date");
}

void record_command(const RecordArguments& options) {
  const Device& device = device_named(options.backend);
  note_interrupts();
  const FolderInTheMaking folder(options.out);
  recording::Recording recording;
  {
    ProgressBar bar("record", options.quiet);
    const double share = options.quick ? 0 : 0.9;
    const auto shown = [&](double from, double width) {
      return [&bar, from, width](double fraction) {
        stop_if_interrupted();
        bar.show(from + width * fraction);
      };
    };
    const auto asked = options.quick ? std::vector<recording::Asked>{} : asked_by_experiments(shown(0, share));
    recording = recording::record(device, asked, shown(share, 1 - share));
  }
  describe_origin(device, recording.origin);
  const recording::Files files = to_files(recording);
  write_file(folder.path() / recording::manifest_file, files.manifest);
  write_file(folder.path() / recording::answers_file, files.answers);
  recording::read_recording(folder.path());  // what cannot be read back is not kept
  folder.keep();
  std::set<std::string> units;
  for (const auto& section : recording.matrices) units.insert(section.unit);
  write_output(fmt::format(
      "{}: {}\n  {} answers in {} sections, {} of tasks and {} of {} matrix instruction{}; {:.2f} MB\n", options.out,
      recording.origin.device, recording.answers(), recording.tasks.size() + recording.matrices.size(),
      recording.tasks.size(), recording.matrices.size(), units.size(), units.size() == 1 ? "" : "s",
      static_cast<double>(files.manifest.size() + files.answers.size()) * 1e-6));
  std::map<std::string, std::vector<std::string>> missing;  // one line per reason
  for (const auto& each : recording.missing) missing[each.reason].push_back(each.what);
  for (const auto& [reason, what] : missing)
    write_output(fmt::format("  {} skipped: {}\n",
                             what.size() == 1 ? what.front() : fmt::format("{} matrix instructions", what.size()),
                             reason));
}

}  // namespace

void add_record_command(CLI::App& app, int& status) {
  auto options = std::make_shared<RecordArguments>();
  auto* command = app.add_subcommand("record",
                                     "keep what a device answers to the recording suite, for machines without it");
  command->add_option("--backend", options->backend, "x86 (this CPU), cuda (a GPU), rehearsal (no device)")
      ->type_name("BACKEND")
      ->required();
  command->add_option("--out", options->out, "a new folder: manifest.json and answers.bin")
      ->type_name("DIR")
      ->required()
      ->check([](const std::string& name) {
        return name.empty() ? std::string("an empty name is no folder; accepted: a new folder") : std::string();
      });
  command->add_flag("--quick", options->quick,
                    "takes only seconds, because it leaves out the operands of experiments; a replayed experiment then "
                    "has almost nothing to compare");
  command->add_flag("--quiet", options->quiet, "no progress bar");
  command->footer(
      "Recording takes about half a minute on two cores, most of it for running the experiments as far as they compute "
      "new operands.\nTo replay the recording, use --backend recorded:DIR, such as recorded:./NAME. A name without a "
      "slash "
      "is first looked up in evidence/recordings/.\nExit status: 0 recorded, 2 bad usage, 3 the device is not here, "
      "130 interrupted.");
  command->callback([options, &status] {
    try {
      record_command(*options);
    } catch (const Interrupted&) {
      print_error("interrupted; the unfinished recording was not kept");
      status = exit_status::interrupted;
    }
  });
}

}  // namespace halfulp::cli
