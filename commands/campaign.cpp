// `halfulp campaign`: one experiment under every combination of some parameters. Its trials are kept in a store, so
// that it stops, goes on and grows; an engine spreads those that are missing over a cluster
// (python/halfulp/campaigns.py).
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/campaign.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace halfulp::cli {
namespace {

struct CampaignArguments {
  std::string specification, store, command;
  std::optional<std::string> out, backends;
  std::uint64_t most = usual_points;
  int threads = 0;
  bool dry_run = false, list = false, json = false, quiet = false, verbose = false;
};

/// A trial that the store lacks.
struct MissingTrial {
  std::size_t point;
  std::string key, label;
};

/// What a campaign's store has, of the stages that are reached.
struct State {
  std::size_t there = 0;
  std::vector<MissingTrial> missing;  ///< each once, also where several points need it
  bool more_may_follow = false;
  bool has_trials = true;  ///< otherwise a point is computed whole, in each run
};

class CampaignRun {
 public:
  CampaignRun(const CampaignArguments& arguments, const Campaign& campaign)
      : arguments_(arguments),
        campaign_(campaign),
        backends_(choose_backends(arguments.backends.value_or("emulated"))) {}

  /// Reads what is there and computes nothing; of an experiment without trials the first point. Refuses points that the
  /// experiment refuses.
  State state(const TrialStore& store) const {
    State found;
    std::set<std::string> met;
    for (std::size_t i = 0; i < campaign_.points.size() && found.has_trials; ++i) {
      TrialSource source;
      source.store = &store;
      source.only_lists = true;
      bool any = false;
      source.seen = [&](const std::string& key, const Trial& trial, bool is_there) {
        any = true;
        if (!met.insert(key).second) return;
        if (is_there) ++found.there;
        else found.missing.push_back({i, key, trial.label});
      };
      at_point(i, [&] {
        try {
          compute_trials(*campaign_.experiment, campaign_.points[i].config, options(source));
        } catch (const TrialsMissing&) { found.more_may_follow = true; }
      });
      stop_if_interrupted();
      if (i == 0) found.has_trials = any;
    }
    return found;
  }

  /// Computes one trial of a point, or none if the key is empty, on one thread. Returns the seconds it took.
  double compute(const TrialStore& store, std::size_t point, const std::string& one) const {
    TrialSource source;
    source.store = &store;
    source.computes = [&](const std::string& key, std::size_t) { return key == one; };
    RunOptions run = options(source);
    run.threads = 1;
    const auto start = std::chrono::steady_clock::now();
    try {
      compute_trials(*campaign_.experiment, campaign_.points[point].config, run);
    } catch (const TrialsMissing&) {}
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  /// The report, after everything that the store lacks.
  Report report(const TrialStore& store) const {
    CampaignReport whole(campaign_);
    ProgressBar bar("campaign", arguments_.quiet);
    const auto points = static_cast<double>(campaign_.points.size());
    for (std::size_t i = 0; i < campaign_.points.size(); ++i) {
      TrialSource source;
      source.store = &store;
      RunOptions run = options(source);
      run.progress = [&](double fraction) { bar.show((static_cast<double>(i) + fraction) / points); };
      run.note = [&](const std::string& words) {
        bar.note(fmt::format("point {} of {}: {}", i + 1, campaign_.points.size(), words));
      };
      at_point(i, [&] { whole.add(run_experiment(*campaign_.experiment, campaign_.points[i].config, run)); });
      if (i == 0 && campaign_.points.size() > 1)  // before the others take hours
        for (const std::string& absent : whole.absent_tables()) {
          bar.wipe();
          print_error(fmt::format("{}: tables, of the first of {} points (the others are computed all the same): {}",
                                  arguments_.specification, campaign_.points.size(), absent));
        }
    }
    Report made = std::move(whole).finish();
    made.environment(describe_environment(threads(), arguments_.command, backends_));
    return made;
  }

  /// Errors of input say in which point they are.
  template <class F>
  void at_point(std::size_t point, F f) const {
    try {
      f();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(
          fmt::format("{}: point {}, {}: {}", arguments_.specification, point, named(point), error.what()));
    }
  }

  /// The values of a point: "networks=mlp, rate=0.1".
  std::string named(std::size_t point) const {
    std::string text;
    for (std::size_t i = 0; i < campaign_.axes.size(); ++i) {
      const Json& value = campaign_.points[point].values[i];
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", campaign_.axes[i],
                          value.is_string() ? value.get<std::string>() : value.dump());
    }
    return text.empty() ? "the only one" : text;
  }

  int threads() const {
    return arguments_.threads > 0 ? arguments_.threads
                                  : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }

 private:
  RunOptions options(const TrialSource& source) const {
    RunOptions run;
    run.threads = arguments_.threads;
    run.backends = backends_;
    run.source = &source;
    return run;
  }

  const CampaignArguments& arguments_;
  const Campaign& campaign_;
  std::vector<const Device*> backends_;
};

/// "40 s", "12 min", "3.5 h", "2.1 days".
std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.1f} days", seconds / 86400);
}

/// The largest report that other commands read (read_json).
constexpr std::size_t readable_bytes = std::size_t{256} << 20;

/// Trials that an estimate times: evenly placed among those missing, so that points of every cost are met. The least
/// number of them in any case, others in the first seconds.
constexpr std::size_t least_timed = 8, most_timed = 32;
constexpr double timing_seconds = 10;

int without_trials(const CampaignArguments& arguments, const Campaign& campaign) {
  if (arguments.json)
    write_output(pretty({{"experiment", campaign.experiment->name},
                         {"points", campaign.points.size()},
                         {"there", 0},
                         {"missing", Json::array()},
                         {"more_may_follow", false}}));
  else
    write_output(fmt::format("{} point{}; {} has no trials: each run computes all\n", campaign.points.size(),
                             campaign.points.size() == 1 ? "" : "s", campaign.experiment->name));
  return exit_status::done;
}

int dry_run(const CampaignArguments& arguments, const CampaignRun& run, const Campaign& campaign) {
  const TrialStore store = open_store(arguments.store, TrialStore::IfAbsent::make);
  const State state = run.state(store);
  if (!state.has_trials) return without_trials(arguments, campaign);
  const std::size_t missing = state.missing.size(), places = std::min(missing, most_timed),
                    rounds = most_timed / least_timed;
  std::size_t timed = 0;
  double seconds = 0, around = 0;  // of trials; of reading data and records, which each point needs once
  {
    ProgressBar bar("estimate", arguments.quiet);
    for (std::size_t round = 0; round < rounds; ++round)
      for (std::size_t i = round; i < places && (timed < least_timed || seconds + around < timing_seconds);
           i += rounds) {
        bar.show(static_cast<double>(timed) / static_cast<double>(places));
        const MissingTrial& trial = state.missing[(2 * i + 1) * missing / (2 * places)];
        const double nothing = run.compute(store, trial.point, "");
        seconds += std::max(0.0, run.compute(store, trial.point, trial.key) - nothing);
        around += nothing;
        ++timed;
      }
  }
  const double of_one = timed == 0 ? 0 : 1 / static_cast<double>(timed),
               all = seconds * of_one * static_cast<double>(missing - timed),
               here = all / run.threads() + around * of_one * static_cast<double>(campaign.points.size());
  if (arguments.json) {
    write_output(pretty({{"points", campaign.points.size()},
                         {"there", state.there + timed},
                         {"missing", missing - timed},
                         {"more_may_follow", state.more_may_follow && missing > 0},
                         {"timed", timed},
                         {"core_seconds", all},
                         {"seconds", here},
                         {"threads", run.threads()}}));
    return exit_status::done;
  }
  std::string text = fmt::format("{} points, {} trials: {} are there, {} missing", campaign.points.size(),
                                 state.there + missing, state.there + timed, missing - timed);
  if (missing > timed)
    text += fmt::format(": about {} on {} thread{}, {} core hours, by {} of them", duration_text(here), run.threads(),
                        run.threads() == 1 ? "" : "s", fmt::format("{:.2g}", all / 3600), timed);
  text += "\n";
  if (state.more_may_follow && missing > 0)
    text += "others may follow when these are there, which are not in the estimate\n";
  write_output(text);
  return exit_status::done;
}

int list_missing(const CampaignArguments& arguments, const CampaignRun& run, const Campaign& campaign) {
  const TrialStore store = open_store(arguments.store, TrialStore::IfAbsent::read);
  const State state = run.state(store);
  if (!state.has_trials) return without_trials(arguments, campaign);
  if (arguments.json) {
    Json points = Json::array(), missing = Json::array();
    for (std::size_t i = 0; i < campaign.points.size(); ++i)
      points.push_back({{"values", campaign.points[i].values}, {"config", campaign.points[i].config.to_json()}});
    for (const MissingTrial& trial : state.missing)
      missing.push_back({{"point", trial.point}, {"key", trial.key}, {"label", trial.label}});
    write_output(pretty({{"experiment", campaign.experiment->name},
                         {"axes", campaign.axes},
                         {"points", points},
                         {"there", state.there},
                         {"missing", missing},
                         {"more_may_follow", state.more_may_follow}}));
    return exit_status::done;
  }
  std::string text;
  if (!arguments.quiet)
    text = fmt::format("{} point{}; {} trials are there, {} missing{}\n", campaign.points.size(),
                       campaign.points.size() == 1 ? "" : "s", state.there, state.missing.size(),
                       state.more_may_follow ? "; others may follow when these are there" : "");
  for (const MissingTrial& trial : state.missing)
    text += fmt::format("{}  {}  ({})\n", trial.key, trial.label, run.named(trial.point));
  write_output(text);
  return exit_status::done;
}

/// The report's file; a folder gets campaign.json.
std::string output_file(const CampaignArguments& arguments) {
  const std::string out = arguments.out.value_or("reports/");
  if (out.empty()) throw std::invalid_argument("--out: a file, a folder or - is missing");
  if (out == "-") return out;
  std::error_code error;
  std::string file = out;
  if (out.back() == '/' || std::filesystem::is_directory(out, error)) {
    std::filesystem::create_directories(out, error);
    if (error) throw std::invalid_argument(fmt::format("cannot make the folder {}: {}", out, error.message()));
    file = std::filesystem::path(out) / "campaign.json";
  }
  check_writable(file);
  return file;
}

/// A specification, or that of a campaign's report.
Json specification_in(Json json) {
  if (!json.is_object() || json.value("experiment", Json()) != "campaign" || !json.contains("config")) return json;
  const Json& config = json["config"];
  Json specification{{"experiment", config.value("experiment", Json())}};
  specification.update(Json::parse(config.value("specification", std::string("{}")), nullptr, false));
  return specification;
}

int campaign_command(const CampaignArguments& arguments) {
  if (arguments.list && arguments.dry_run)
    throw std::invalid_argument("--list and --dry-run; accepted: one of the two");
  if ((arguments.list || arguments.dry_run) && arguments.out)
    throw std::invalid_argument("--out belongs to a whole campaign; --list and --dry-run make no report");
  if (arguments.json && !arguments.list && !arguments.dry_run)
    throw std::invalid_argument("--json belongs to --list or --dry-run; a report is JSON: --out -");
  const std::string where = arguments.specification == "-" ? "standard input" : arguments.specification;
  const Campaign campaign = campaign_of(specification_in(read_json(arguments.specification)), arguments.most, where);
  const CampaignRun run(arguments, campaign);
  note_interrupts();
  if (arguments.list) return list_missing(arguments, run, campaign);
  if (arguments.dry_run) return dry_run(arguments, run, campaign);

  const TrialStore store = open_store(arguments.store, TrialStore::IfAbsent::make);
  const std::string file = output_file(arguments);
  if (std::error_code error; file != "-" && std::filesystem::equivalent(file, arguments.specification, error))
    throw std::invalid_argument(fmt::format("--out: {} is the specification; accepted: another file", file));
  const OutputFile written{"--out", file};
  for (const CampaignPoint& point : campaign.points) keep_named_files(point.config, {&written, 1});
  (void)run.state(store);  // a point that the experiment refuses ends the campaign before anything is computed
  const Report report = run.report(store);
  const std::string text = pretty(report.to_json());
  stop_if_interrupted();
  if (text.size() > readable_bytes)
    throw std::invalid_argument(
        fmt::format("{}: the report of {} points has {} MiB; accepted: at most {} MiB, with fewer points, smaller "
                    "settings, or only some \"tables\" (what is computed stays in the store)",
                    arguments.specification, campaign.points.size(), text.size() >> 20, readable_bytes >> 20));
  file == "-" ? write_output(text) : write_file(file, text);
  if (!arguments.quiet && file != "-") {
    Headline headline{"points", {"point"}};
    headline.columns.insert(headline.columns.end(), campaign.axes.begin(), campaign.axes.end());
    headline.columns.insert(headline.columns.end(), {"status", "pass", "differs", "fail"});
    write_output(headline_text(report.results()["points"], headline,
                               arguments.verbose ? std::numeric_limits<std::size_t>::max() : headline_rows,
                               fmt::format("halfulp show {} points", file), Style::of_output()) +
                 fmt::format("\n{}: {}\n", clean(report.finding()), file));
  }
  return report.status() == "fail" ? exit_status::failed : exit_status::done;
}

}  // namespace

void add_campaign_command(CLI::App& app, int& status, std::string command) {
  const auto arguments = std::make_shared<CampaignArguments>();
  arguments->command = std::move(command);
  CLI::App* campaign = app.add_subcommand("campaign", "an experiment under every combination of some parameters");
  campaign->add_option("specification", arguments->specification, "a JSON file; - is standard input")
      ->type_name("FILE")
      ->option_text("FILE")
      ->required();
  campaign->add_option("--store", arguments->store, "the folder that keeps trials; made where it is not there")
      ->type_name("DIR")
      ->required();
  campaign
      ->add_option("--out", arguments->out, "the report's file or folder, or - for standard output (default: reports/)")
      ->type_name("FILE|DIR|-");
  campaign->add_flag("--list", arguments->list, "list the trials that the store lacks, and compute nothing");
  campaign->add_flag("--dry-run", arguments->dry_run,
                     "say how long it would take: a few of the missing trials are computed and timed");
  campaign->add_flag("--json", arguments->json, "of --list and --dry-run as JSON");
  campaign
      ->add_option("--backend", arguments->backends, "backends to compare the results with (default: emulated alone)")
      ->type_name("B[,B]");
  add_number_option(*campaign, "--threads", arguments->threads, 1, 1024,
                    "number of threads (default: one per core; the results do not depend on it)");
  add_number_option(*campaign, "--max-points", arguments->most, 1, 1'000'000'000'000,
                    "refuse a specification of more points (default: 10000)");
  campaign->add_flag("--quiet", arguments->quiet, "no progress bar and no summary");
  campaign->add_flag("--verbose", arguments->verbose, "every point in the summary");
  campaign->footer(
      "FILE says what varies:\n"
      "  {\"experiment\": \"training\", \"settings\": {\"steps\": 300, \"seeds\": 10},\n"
      "   \"grid\": {\"networks\": [\"mlp\", \"cnn\"], \"lr\": [0.001, 0.01]},\n"
      "   \"exclude\": [{\"networks\": \"cnn\", \"lr\": 0.01}],\n"
      "   \"tables\": [\"summary\"]}\n"
      "A grid may be a list of grids; without tables the report has all. What the store\n"
      "has is read, the rest computed; a stopped campaign goes on. On a cluster, or in\n"
      "processes of this machine: python3 -m halfulp campaign FILE\n"
      "--store DIR --scheduler ADDRESS, or --workers N (docs/how-to/many-machines.md).");
  campaign->callback([arguments, &status] { status = campaign_command(*arguments); });
}

}  // namespace halfulp::cli
