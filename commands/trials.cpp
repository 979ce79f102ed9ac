// `halfulp trials` and `halfulp trial`: the pieces of an experiment that a store lacks, listed and computed. One of
// many machines computes some; `halfulp run --store` puts them together.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/part.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

struct TrialsArguments : RunArguments {
  std::string experiment, folder;
  std::optional<std::string> part;
  std::vector<std::string> keys;
  bool json = false, all = false, wait = false;
};

RunOptions options_of(const TrialsArguments& arguments, const TrialSource& source) {
  RunOptions options;
  options.threads = arguments.threads;
  options.backends = choose_backends(arguments.backends);
  options.source = &source;
  return options;
}

/// Throws std::invalid_argument for what cannot be a key: "training-1/" and 32 digits.
void require_key(const std::string& key) {
  const std::size_t slash = key.find('/');
  if (slash != std::string::npos && slash > 2 && key.size() == slash + 33 &&
      key.find_first_not_of("0123456789abcdef", slash + 1) == std::string::npos)
    return;
  throw std::invalid_argument(
      fmt::format("{} is no key of a trial; accepted: what halfulp trials lists", key.empty() ? "''" : shown(key)));
}

/// Runs the experiment until it ends or lacks trials of others; then what it says of them.
std::string compute(const Experiment& experiment, const Config& config, const RunOptions& options) {
  try {
    compute_trials(experiment, config, options);
  } catch (const TrialsMissing& missing) { return missing.what(); }
  return {};
}

/// The line for an experiment whose trials nobody keeps.
std::string no_trials(const Experiment& experiment) {
  return fmt::format("{} has no trials: a run computes it whole\n", experiment.name);
}

int list_missing(const TrialsArguments& arguments) {
  const Experiment& experiment = experiment_named(arguments.experiment, "trials");
  const Config config = configuration(experiment, arguments);
  const TrialStore store = open_store(arguments.folder, TrialStore::IfAbsent::read);
  std::string text;
  Json list = Json::array();
  std::size_t there = 0, missing = 0;
  TrialSource source;
  source.store = &store;
  source.only_lists = true;
  source.seen = [&](const std::string& key, const Trial& trial, bool is_there) {
    ++(is_there ? there : missing);
    if (is_there && !arguments.all) return;
    text += fmt::format("{}  {}{}\n", key, arguments.all ? is_there ? "there    " : "missing  " : "", trial.label);
    list.push_back({{"key", key}, {"label", trial.label}, {"there", is_there}, {"item", trial.item}});
  };
  note_interrupts();
  const std::string lacks = compute(experiment, config, options_of(arguments, source));
  if (arguments.json)
    write_output(pretty({{"experiment", experiment.name},
                         {"there", there},
                         {"missing", missing},
                         {"more_may_follow", !lacks.empty()},
                         {"trials", list}}));
  else {
    if (!arguments.quiet)
      text += there + missing == 0 ? no_trials(experiment)
                                   : fmt::format("{} trials are there, {} missing{}\n", there, missing,
                                                 lacks.empty() ? "" : "; others may follow when these are there");
    write_output(text);
  }
  return exit_status::done;
}

int compute_some(const TrialsArguments& arguments) {
  const Experiment& experiment = experiment_named(arguments.experiment, "trial");
  if (arguments.part && !arguments.keys.empty())
    throw std::invalid_argument("--part belongs to a run without KEY; accepted: one of the two");
  std::optional<Part> part;
  if (arguments.part) part = part_named(*arguments.part);
  for (const std::string& key : arguments.keys) require_key(key);
  const Config config = configuration(experiment, arguments);
  const TrialStore store = open_store(arguments.folder, TrialStore::IfAbsent::make);
  std::set<std::string> unseen(arguments.keys.begin(), arguments.keys.end());
  const std::set<std::string> asked = unseen;
  std::size_t seen = 0, computed = 0;
  std::string lacks;
  {
    ProgressBar bar(std::string(experiment.name), arguments.quiet);
    TrialSource source;
    source.store = &store;
    source.waits = arguments.wait;
    source.computes = [&](const std::string& key, std::size_t place) {
      if (!asked.empty()) return asked.contains(key);
      return !part || part->has(place);
    };
    source.seen = [&](const std::string& key, const Trial&, bool) { ++seen, unseen.erase(key); };
    source.computed = [&](const std::string&, const Trial&) { ++computed; };
    RunOptions options = options_of(arguments, source);
    options.progress = [&](double fraction) { bar.show(fraction); };
    options.note = [&](const std::string& words) { bar.note(words); };
    note_interrupts();
    lacks = compute(experiment, config, options);
  }
  if (!unseen.empty())
    throw std::invalid_argument(
        fmt::format("{}: no trial of this {}, or of a stage that is not reached yet; accepted: "
                    "what halfulp trials lists with the same options",
                    shown(*unseen.begin()), experiment.name));
  if (!arguments.quiet)
    write_output(seen == 0 ? no_trials(experiment)
                           : fmt::format("{} computed; {}\n", computed, lacks.empty() ? "all are there" : lacks));
  return exit_status::done;
}

void add_common_options(CLI::App& app, TrialsArguments& arguments) {
  app.add_option("experiment", arguments.experiment, "its name (see halfulp list)")
      ->type_name("EXPERIMENT")
      ->option_text("EXPERIMENT")
      ->required();
  app.add_option("--store", arguments.folder, "the folder that keeps trials; made where it is not there")
      ->type_name("DIR")
      ->required();
  add_configuration_options(app, arguments);
  app.add_flag("--quiet", arguments.quiet, "no progress bar and no summary");
}

}  // namespace

void add_trials_command(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<TrialsArguments>();
  CLI::App* trials = app.add_subcommand("trials", "list the pieces of an experiment that a store lacks");
  add_common_options(*trials, *arguments);
  trials->add_flag("--all", arguments->all, "also those that are there");
  trials->add_flag("--json", arguments->json, "the list as JSON, with all that each depends on");
  trials->callback([arguments, &status] { status = list_missing(*arguments); });
}

void add_trial_command(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<TrialsArguments>();
  CLI::App* trial = app.add_subcommand("trial", "compute pieces of an experiment into a store");
  add_common_options(*trial, *arguments);
  trial->add_option("key", arguments->keys, "those that halfulp trials lists by these keys (default: all it lists)")
      ->type_name("KEY")
      ->option_text("[KEY...]");
  trial
      ->add_option("--part", arguments->part,
                   "the I-th of N parts, for N processes; auto: as Slurm or MPI number this one")
      ->type_name("I/N|auto");
  trial->add_flag("--wait", arguments->wait,
                  "wait for what the others compute, and go on with the next stage, to the end of all");
  trial->callback([arguments, &status] { status = compute_some(*arguments); });
}

}  // namespace halfulp::cli
