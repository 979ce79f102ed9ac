// An experiment is a function from a configuration to a report.
#pragma once

#include <halfulp/report/config.hpp>
#include <halfulp/report/finding.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/report/trace.hpp>
#include <halfulp/support/work.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

struct Experiment;
struct TrialSource;

/// What an experiment may use besides its configuration.
struct Run {
  Report& report;
  Trace& trace;  ///< operations recorded here are replayed on every backend asked for, after the experiment
  /// Reports progress in [0, 1]; throws Interrupted after Ctrl-C. Call it a few times a second, never from two threads
  /// at once.
  std::function<void(double)> progress;
  /// A few words behind the progress bar: what is going on, a loss. Like progress; may be empty.
  std::function<void(const std::string&)> note = {};
  /// Hands `use` the report of another experiment with this configuration: the one that was made before in the same run
  /// of the program, or one that is made now, without backends, while progress goes from `from` to `to`. Throws what
  /// that experiment throws.
  std::function<void(const Experiment&, const Config&, double from, double to,
                     const std::function<void(const Report&)>& use)>
      with_report = {};
  /// Nobody reads the report (operands_of): an experiment may leave out what adds nothing to the trace.
  bool only_operands = false;
  /// The store of trials, and what is done with those it lacks (trials.hpp). Null: all are computed.
  const TrialSource* source = nullptr;
};

/// What a run shows of its report on the terminal: some columns of one table, its first rows.
struct Headline {
  std::string_view table;
  std::vector<std::string_view> columns;  ///< at most 80 characters wide together
  /// Only rows that have in these columns what the first row has; the title says it.
  std::vector<std::string_view> first_of = {};
  /// Of rows alike in these columns only the last (the longest, the largest).
  std::vector<std::string_view> last_of = {};
};

struct Experiment {
  std::string_view name;      ///< snake_case, as on the command line
  std::string_view title;     ///< of the report
  std::string_view question;  ///< one line: what it shows
  std::vector<Parameter> (*parameters)();
  void (*run)(const Config& config, Run& run);
  /// The answer to the question: one sentence with numbers from the report's own tables, at most 100 characters by
  /// default; empty where this configuration gives none.
  std::string (*finding)(const ReportTables& tables) = nullptr;
  Headline headline = {};
  /// Its claims are about those of other experiments: where those are listed too, its own are not.
  bool retells = false;
  /// What those of its claims help to repeat whose figures others published and that name no publication of their own.
  const Publication* publication = nullptr;
};

/// Every experiment of experiments/experiments.def, in the order of a lecture. The file NAME.cpp of an experiment
/// defines `Experiment NAME_experiment();` in namespace halfulp: its row, {name, title, question, parameters, run,
/// headline}.
std::span<const Experiment> experiments();

/// All of them, and what else has reports: the model of halfulp.torch, and the checkpoint of `halfulp inspect`.
std::span<const Experiment> kinds_of_report();

/// What `finding` says of a report's "results"; empty where it says nothing.
std::string finding_of(const Experiment& experiment, const Json& results);

/// The experiment of that name. Throws std::invalid_argument naming the nearest ones.
const Experiment& find_experiment(std::string_view name);

}  // namespace halfulp
