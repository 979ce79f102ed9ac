// The parameters of an experiment, for people.
#include <halfulp/commands/run.hpp>

#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace halfulp::cli {
std::string experiment_help(const Experiment& experiment) {
  std::string text = fmt::format("{}: {}\n{}\nParameters, as --set NAME=VALUE or members of a --config file:\n",
                                 experiment.name, experiment.title, wrapped(experiment.question, 0));
  for (const Parameter& parameter : experiment.parameters()) {
    text += fmt::format("\n  {} = {}\n", parameter.name,
                        parameter.default_value.empty() ? "\"\"" : parameter.default_value);
    text += wrapped(parameter.help, 6) + wrapped(accepted_values(parameter), 6);
  }
  return text;
}

namespace {

namespace fs = std::filesystem;

bool declares(const Config& config, std::string_view name) {
  return std::any_of(config.parameters().begin(), config.parameters().end(),
                     [&](const Parameter& p) { return p.name == name; });
}

/// A configuration file, or a report of this experiment. Errors name the file.
void apply_file(Config& config, const std::string& path, const Experiment& experiment) {
  const Json json = read_json(path);
  try {
    if (json.is_object() && json.contains("schema_version") && json.contains("experiment") &&
        json["experiment"] != experiment.name)
      throw std::invalid_argument(fmt::format("a report of {}, not of {}", json["experiment"].dump(), experiment.name));
    config.set(json);
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(path + ": " + error.what()); }
}

/// With several experiments a setting goes to those that have the parameter; one must.
void check_settings(const std::vector<Config>& configs, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::string name = setting.substr(0, setting.find('='));
    std::vector<std::string> names;
    for (const Config& config : configs)
      for (const Parameter& parameter : config.parameters())
        if (std::find(names.begin(), names.end(), parameter.name) == names.end()) names.push_back(parameter.name);
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw std::invalid_argument(unknown_name("parameter", name, std::move(names)));
  }
}

std::vector<Config> configurations(const std::vector<const Experiment*>& chosen, const RunArguments& arguments) {
  if (chosen.size() > 1 && arguments.config)
    throw std::invalid_argument("--config belongs to one experiment, not to all");
  std::vector<Config> configs;
  for (const Experiment* experiment : chosen) {
    Config& config = configs.emplace_back(experiment->parameters());
    if (arguments.config) apply_file(config, *arguments.config, *experiment);
  }
  std::set<std::string> names;
  for (const std::string& setting : arguments.settings)
    if (const std::string name = setting.substr(0, setting.find('=')); !names.insert(name).second)
      throw std::invalid_argument(fmt::format("parameter {} is given twice; accepted: once", shown(name)));
  if (chosen.size() > 1) check_settings(configs, arguments.settings);
  for (Config& config : configs)
    for (const std::string& setting : arguments.settings)
      if (chosen.size() == 1 || declares(config, setting.substr(0, setting.find('=')))) config.set(setting);
  return configs;
}

/// With several experiments: which of them each setting changes, for a key such as count means something else in each.
void say_what_changes(const std::vector<const Experiment*>& chosen, const std::vector<Config>& configs,
                      const std::vector<std::string>& settings) {
  std::string text;
  for (const std::string& setting : settings) {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (declares(configs[i], setting.substr(0, setting.find('=')))) names.push_back(chosen[i]->name);
    text += fmt::format("{}--set {} changes {}", text.empty() ? "" : "; ", shown(setting),
                        names.size() == chosen.size() ? "all" : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (!text.empty()) print_error(fmt::format("{} (of {} experiments)", text, chosen.size()));
}

/// A folder for reports. What of it and of the folders above it had to be made is gone again if nothing was written
/// there: experiments refuse some values only as they begin.
class ReportFolder {
 public:
  ReportFolder() = default;
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;
  ~ReportFolder() {
    std::error_code ignored;
    for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only an empty one
  }
  void make(const fs::path& folder) {
    std::error_code error;
    for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path())
      if (at.has_filename()) made_.push_back(at);
    fs::create_directories(folder, error);
    if (error)
      throw std::invalid_argument(fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  }

 private:
  std::vector<fs::path> made_;  ///< the innermost first
};

/// Where each report goes: a folder, made if it ends in a slash or several reports go there, takes EXPERIMENT.json; "-"
/// is standard output.
std::vector<std::string> output_files(const std::vector<const Experiment*>& chosen, const std::string& out,
                                      ReportFolder& reports) {
  const bool several = chosen.size() > 1;
  if (out.empty()) throw std::invalid_argument("--out: a file, a folder or - is missing");
  if (out == "-" && !several) return {out};
  std::error_code error;
  const bool folder = fs::is_directory(out, error), slash = out.back() == '/';
  if (several && !folder && (out == "-" || fs::exists(out, error) || (!slash && fs::path(out).extension() == ".json")))
    throw std::invalid_argument(fmt::format(
        "--out {}: several reports need a folder; accepted: a folder, or a new name that ends in / or not in .json",
        out));
  if (!folder && !slash && !several) {
    check_writable(out);
    return {out};
  }
  reports.make(out);
  std::vector<std::string> files;
  for (const Experiment* experiment : chosen) {
    files.push_back(fs::path(out) / (std::string(experiment->name) + ".json"));
    check_writable(files.back());
  }
  return files;
}

[[noreturn]] void overwritten(const OutputFile& file, std::string_view reader) {
  throw std::invalid_argument(fmt::format("{}: {} is what {} reads, and would be overwritten; accepted: another file",
                                          file.option, shown(file.path), reader));
}

/// What is written must not take the place of what the run reads, whatever the command.
void keep_files(const RunArguments& arguments, const std::vector<Config>& configs,
                const std::vector<std::string>& files, const RunHooks& hooks) {
  std::vector<OutputFile> written = hooks.others;
  // A report that is run again may be overwritten: the new one says as much.
  const bool again = arguments.config && *arguments.config != "-" && fs::is_regular_file(*arguments.config) &&
                     read_json(*arguments.config).contains("schema_version");
  for (const std::string& file : files)
    if (file != "-") written.push_back({hooks.out, file});
  for (const OutputFile& file : written)
    if (arguments.config && !(again && file.option == hooks.out) && same_file(*arguments.config, file.path))
      overwritten(file, "--config");
  for (const Config& config : configs) keep_named_files(config, written);
}

/// A report must not take the place of what is in a folder that the run reads.
void keep_folders(const std::vector<Config>& configs, const std::vector<std::string>& files) {
  const auto keep = [&](const std::string& input, const std::string& name) {
    std::error_code error;
    const fs::path read = fs::weakly_canonical(input, error);
    if (!fs::is_directory(read, error)) return;
    for (const std::string& file : files) {
      if (file == "-" || !fs::exists(file, error)) continue;
      const fs::path inside = fs::relative(file, read, error);
      // An earlier report in a folder of arrays is none of them; lists of shards and of saved gradients are read.
      const bool data = !file.ends_with(".json") || file.ends_with(".index.json") ||
                        fs::path(file).filename() == "gradients.json";
      if (data && !inside.empty() && *inside.begin() != "..") overwritten({"--out", file}, name);
    }
  };
  for (const Config& config : configs)
    for (const Parameter& parameter : config.parameters())
      if (parameter.type == ParameterType::path && !config.text(parameter.name).empty())
        keep(config.text(parameter.name), parameter.name);
}

Finished run_one(const Experiment& experiment, const Config& config, RunOptions options, const std::string& file,
                 const RunHooks& hooks, bool quiet) {
  const auto start = std::chrono::steady_clock::now();
  Report report = [&] {
    ProgressBar bar(std::string(experiment.name), quiet);
    options.progress = [&](double fraction) { bar.show(fraction); };
    options.note = [&](const std::string& words) { bar.note(words); };
    return run_experiment(experiment, config, options);
  }();
  std::vector<FileText> files;
  if (hooks.with) files = hooks.with(report);
  files.emplace_back(file, pretty(report.to_json()));
  stop_if_interrupted();
  if (file == "-") {
    write_output(files.back().second);
    files.pop_back();
  }
  write_files(files);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {&experiment, std::move(report), took.count(), file};
}

}  // namespace

void keep_named_files(const Config& config, std::span<const OutputFile> written) {
  for (const OutputFile& file : written) {
    if (std::error_code error; !fs::is_regular_file(file.path, error)) continue;
    for (const Parameter& parameter : config.parameters()) {
      const bool path = parameter.type == ParameterType::path;
      if ((!path && parameter.type != ParameterType::text) || parameter.name == "output" ||
          parameter.name == "save_gradients")
        continue;
      const std::string text = config.text(parameter.name);
      if (path && !text.empty() && same_file(text, file.path)) overwritten(file, parameter.name);
      for (std::size_t begin = 0, end = 0; !path && begin < text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        const std::string name(trimmed(std::string_view(text).substr(begin, end - begin)));
        if (name.ends_with(".json") && same_file(name, file.path)) overwritten(file, parameter.name);
      }
    }
  }
}

void add_setting_option(CLI::App& app, RunArguments& arguments, const std::string& help) {
  app.add_option("--set", arguments.settings, help)
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void add_configuration_options(CLI::App& app, RunArguments& arguments) {
  app.add_option("--config", arguments.config,
                 "a JSON file of parameters, or a report to run again (- is standard input)")
      ->type_name("FILE");
  add_setting_option(app, arguments, "a parameter and its value; may be repeated");
  app.add_option("--backend", arguments.backends,
                 "backends to compare the results with (default: each that is here; see halfulp backends)")
      ->type_name("B[,B]");
  add_number_option(app, "--threads", arguments.threads, 1, 1024,
                    "number of threads (default: one per core; the results do not depend on it)");
}

void add_run_options(CLI::App& app, RunArguments& arguments) {
  add_configuration_options(app, arguments);
  app.add_option("--out", arguments.out, "the report's file or folder, or - for standard output (default: reports/)")
      ->type_name("FILE|DIR|-");
  app.add_flag("--quiet", arguments.quiet, "no progress bar, no notes and no summary");
  app.add_flag("--verbose", arguments.verbose, "every claim, and every row of the table that is shown");
  app.add_flag("--parameters", arguments.parameters, "show the parameters and run nothing");
}

void add_store_option(CLI::App& app, RunArguments& arguments) {
  app.add_option("--store", arguments.store,
                 "a folder that keeps what the run computes: it reads from there what is there already (see halfulp "
                 "trial)")
      ->type_name("DIR");
}

Config configuration(const Experiment& experiment, const RunArguments& arguments) {
  return configurations({&experiment}, arguments).front();
}

TrialStore open_store(const std::string& folder, TrialStore::IfAbsent if_absent) {
  TrialStore store(folder, if_absent);
  store.damaged = [](const std::string& line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    print_error(line);
  };
  return store;
}

int run_experiments(const std::vector<const Experiment*>& chosen, const RunArguments& arguments,
                    const RunHooks& hooks) {
  if (arguments.parameters) {
    (void)configurations(chosen, arguments);  // which refuses what is not accepted
    for (const Experiment* experiment : chosen)
      write_output(experiment_help(*experiment) + (chosen.size() > 1 ? "\n" : ""));
    return exit_status::done;
  }
  RunOptions options;
  options.threads = arguments.threads;
  options.command = arguments.command;
  options.backends = choose_backends(arguments.backends);
  const std::vector<Config> configs = configurations(chosen, arguments);
  ReportFolder folder;
  const std::vector<std::string> files = output_files(chosen, arguments.out, folder);
  keep_files(arguments, configs, files, hooks);
  if (!hooks.check) keep_folders(configs, files);
  else
    for (std::size_t i = 0; i < chosen.size(); ++i) hooks.check(configs[i], files[i]);

  std::optional<TrialStore> store;
  TrialSource source;
  if (arguments.store) {
    store = open_store(*arguments.store, TrialStore::IfAbsent::make);
    source.store = &*store;
    options.source = &source;
  }

  if (chosen.size() > 1 && !arguments.quiet) say_what_changes(chosen, configs, arguments.settings);

  note_interrupts();
  std::vector<Finished> finished;
  options.made_before = [&](std::string_view experiment, const Json& config) {
    const auto found = std::find_if(finished.begin(), finished.end(), [&](const Finished& run) {
      return run.experiment->name == experiment && run.report.config() == config;
    });
    return found == finished.end() ? nullptr : &found->report;
  };
  for (std::size_t i = 0; i < chosen.size(); ++i)
    finished.push_back(run_one(*chosen[i], configs[i], options, files[i], hooks, arguments.quiet));
  if (hooks.then)
    for (const Finished& run : finished) hooks.then(run.report);

  const Style style = Style::of_output();
  if (!arguments.quiet && arguments.out != "-")
    write_output(chosen.size() == 1 ? summary(finished.front(), arguments.verbose, style)
                                    : summary_table(finished, arguments.verbose, style));
  const bool failed = std::any_of(finished.begin(), finished.end(),
                                  [](const Finished& run) { return run.report.status() == "fail"; });
  return failed ? exit_status::failed : exit_status::done;
}

const Experiment& experiment_named(const std::string& name, const std::string& command) {
  std::vector<std::string> names;
  if (command == "run") names.emplace_back("all");
  for (const Experiment& experiment : experiments()) {
    names.emplace_back(experiment.name);
    if (name == experiment.name) return experiment;
  }
  if (name.empty())
    throw std::invalid_argument(
        fmt::format("{}: an experiment is missing; accepted: {}", command, fmt::join(names, ", ")));
  throw std::invalid_argument(unknown_name("experiment", name, std::move(names)));
}

void add_run_command(CLI::App& app, int& status, std::string command) {
  struct Options : RunArguments {
    std::string experiment;
  };
  const auto options = std::make_shared<Options>();
  options->command = std::move(command);
  CLI::App* run = app.add_subcommand("run", "run an experiment, or all, and write its report");
  CLI::Option* name = run->add_option("experiment", options->experiment, "its name (see halfulp list), or all")
                          ->type_name("EXPERIMENT")
                          ->option_text("EXPERIMENT");
  add_run_options(*run, *options);
  add_store_option(*run, *options);
  run->footer([name] {  // halfulp run EXPERIMENT --help shows that experiment's parameters
    const auto given = name->results();
    for (const Experiment& experiment : experiments())
      if (!given.empty() && experiment.name == given.front()) return "\n" + experiment_help(experiment);
    return std::string("\nhalfulp run EXPERIMENT --parameters shows what --set takes.");
  });
  run->callback([options, &status] {
    std::vector<const Experiment*> chosen;
    if (options->experiment == "all")
      for (const Experiment& experiment : experiments()) chosen.push_back(&experiment);
    else chosen.push_back(&experiment_named(options->experiment, "run"));
    status = run_experiments(chosen, *options);
  });
}

}  // namespace halfulp::cli
