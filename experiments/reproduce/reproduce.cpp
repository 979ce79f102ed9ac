// reproduce: what others have published, beside what the experiments measure. Every claim says in its source which
// publication it helps to repeat; this experiment only collects.
#include <halfulp/experiments/publications.hpp>
#include <halfulp/report/experiment.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace halfulp {
namespace reproduce {
namespace {

constexpr std::string_view own_name = "reproduce";

std::vector<Parameter> parameters() {
  std::vector<std::string> names{};
  for (const Experiment& experiment : experiments())
    if (experiment.name != own_name) names.emplace_back(experiment.name);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {{"experiments", ParameterType::choices, fmt::format("{}", fmt::join(names, ",")),
           "experiments that are run, each with its defaults; all of them take about three minutes on two cores",
           -infinity, infinity, names}};
}

/// How the figures of one publication came out.
struct Reproduction {
  std::string name, source, set_up;
  VerdictCounts verdicts = {};
  std::vector<std::string> differing = {};  ///< claims that do not hold
  std::vector<std::string> reasons = {};    ///< why others were skipped, each once

  void add(const std::string& place, const Claim& claim) {
    verdicts.add(claim.verdict);
    if (claim.verdict == Verdict::differs || claim.verdict == Verdict::fail) differing.push_back(place);
    if (claim.verdict == Verdict::skipped && std::find(reasons.begin(), reasons.end(), claim.reason) == reasons.end())
      reasons.push_back(claim.reason);
  }
};

/// The publication that a claim helps to repeat: its own, or if others published its figure that of its experiment.
const Publication* publication_of(const Experiment& experiment, const Claim& claim) {
  if (claim.source.publication) return claim.source.publication;
  return claim.source.is_published() ? experiment.publication : nullptr;
}

/// What a table can hold: lists and objects as text.
Json cell(const Json& value) { return value.is_structured() ? Json(value.dump()) : value; }

Judgement judgement_of(const Reproduction& r) {
  const std::size_t measured = r.verdicts.measured();
  if (measured == 0) return skipped(fmt::format("{}", fmt::join(r.reasons, "; ")));
  return exactly(measured, r.verdicts[Verdict::pass],
                 {"published", r.verdicts.overall(),
                  fmt::format("{} of {} figures differ: {}; the table `figures` has them", r.verdicts[Verdict::differs],
                              measured, fmt::join(r.differing, ", "))});
}

void run_reproduce(const Config& config, Run& run) {
  if (run.only_operands) return;  // those of the others are theirs
  Table& summary = run.report.table(
      "lines", "Published results, and how many of their figures are reproduced",
      {{"line", "", "What was published."},
       {"held", "claim", "Figures that the measurement confirms."},
       {"differ", "claim", "Published figures that it does not reproduce."},
       {"failed", "claim", "Figures that follow from a format or model and are not reproduced."},
       {"skipped", "claim", "Figures that this machine or the defaults cannot test."},
       {"verdict", "",
        "Pass: all that were measured hold; differs: some published figure does not; skipped: none could be measured."},
       {"source", "", "Where it was published."},
       {"set_up", "", "What was computed, and what its result should be."}});
  Table& figures = run.report.table(
      "figures", "Every figure, with the claim that measures it",
      {{"line", "", "The published result that it belongs to."},
       {"experiment", "", "Experiment that measures it: halfulp run, with its defaults."},
       {"claim", "", "Id of the claim in that experiment's report."},
       {"statement", "", "What is claimed."},
       {"source", "", "Paper, specification or issue; derived: what follows from the format."},
       {"expected", "", "What the source has, or what was derived."},
       {"tolerance", "", "How near the measurement must come; null if it was skipped."},
       {"measured", "", "What came out; null if it was skipped."},
       {"verdict", "", "Pass, fail, differs or skipped."},
       {"independence", "", "What the expected value was obtained from; null if it was skipped."},
       {"reason", "", "Why it differs or was skipped; null otherwise."}});

  std::map<const Publication*, Reproduction> published;
  std::vector<Reproduction> further;  // of each experiment, what belongs to no publication here
  const std::vector<std::string> chosen = config.choices("experiments");
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Experiment& experiment = find_experiment(chosen[i]);
    const Config defaults(experiment.parameters());
    const auto part = [&](std::size_t of) { return static_cast<double>(of) / static_cast<double>(chosen.size()); };
    if (run.note) run.note(chosen[i]);
    run.with_report(experiment, defaults, part(i), part(i + 1), [&](const Report& report) {
      Reproduction others{"Further: " + chosen[i], "the sources in the table `figures`",
                          "other published figures that " + chosen[i] + " measures"};
      for (const Claim& claim : report.claims()) {
        const Publication* const p = publication_of(experiment, claim);
        if (!p && !claim.source.is_published()) continue;
        Reproduction& r = p ? published[p] : others;
        if (p) r.name = p->name, r.source = p->source, r.set_up = p->set_up;
        r.add(chosen[i] + " " + claim.id, claim);
        figures.row({r.name, chosen[i], claim.id, claim.statement, claim.source.text, cell(claim.expected),
                     or_null(claim.tolerance), cell(claim.measured), name_of(claim.verdict),
                     or_null(claim.independence), or_null(claim.reason)});
      }
      if (others.verdicts.all()) further.push_back(std::move(others));
    });
  }
  const auto tell = [&](const Reproduction& r) {
    summary.row({r.name, r.verdicts[Verdict::pass], r.verdicts[Verdict::differs], r.verdicts[Verdict::fail],
                 r.verdicts[Verdict::skipped], name_of(r.verdicts.overall()), r.source, r.set_up});
    const std::string part = r.verdicts[Verdict::skipped] == 0
                                 ? ""
                                 : fmt::format(" {} of {} figures could be measured here.", r.verdicts.measured(),
                                               r.verdicts.all());
    run.report.claim({kebab_case(r.name), fmt::format("{}: {}.{}", r.name, r.set_up, part), r.source}, judgement_of(r));
  };
  for (const Publication* const p : publications::all)
    if (const auto found = published.find(p); found != published.end()) tell(found->second);
  for (const Reproduction& r : further) tell(r);
}

}  // namespace
}  // namespace reproduce

namespace {

/// Figures by how they came out.
std::string reproduce_finding(const ReportTables& tables) {
  const auto lines = tables.rows("lines");
  if (lines.empty()) return {};
  double held = 0, differ = 0, skipped = 0;
  for (const TableRow& row : lines) {
    held += row.number("held");
    differ += row.number("differ");
    skipped += row.number("skipped");
  }
  return fmt::format("Of {:.0f} published figures {:.0f} can be tested here, of which {:.0f} came out.",
                     held + differ + skipped, held + differ, held);
}

}  // namespace

Experiment reproduce_experiment() {
  return {reproduce::own_name,
          "Published results, reproduced",
          "Which published figures are reproduced here, and which are not?",
          reproduce::parameters,
          reproduce::run_reproduce,
          reproduce_finding,
          {"lines", {"line", "held", "differ", "failed", "skipped", "verdict"}},
          true};
}

}  // namespace halfulp
