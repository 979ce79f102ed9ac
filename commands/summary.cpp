#include <halfulp/commands/tables.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp::cli {
namespace {

/// What one backend had to say.
struct BackendTotal {
  std::string backend;
  std::uint64_t compared = 0, differing = 0, tasks = 0, skipped_tasks = 0, unanswered = 0, unanswered_tasks = 0;
  std::vector<std::string> reasons;  ///< of what was skipped, each once
};

void add_totals(const Report& report, std::vector<BackendTotal>& totals) {
  for (const TaskComparison& comparison : report.comparisons()) {
    auto total = std::find_if(totals.begin(), totals.end(),
                              [&](const auto& t) { return t.backend == comparison.backend; });
    if (total == totals.end())
      total = totals.insert(totals.end(), BackendTotal{comparison.backend, 0, 0, 0, 0, 0, 0, {}});
    total->unanswered += comparison.unanswered;
    if (comparison.skipped.empty()) {
      total->compared += comparison.compared;
      total->differing += comparison.differing;
      ++total->tasks;
    } else if (comparison.unanswered) {
      ++total->unanswered_tasks;
    } else {
      ++total->skipped_tasks;
      if (std::find(total->reasons.begin(), total->reasons.end(), comparison.skipped) == total->reasons.end())
        total->reasons.push_back(comparison.skipped);
    }
  }
}

/// "1,234,567".
std::string grouped(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// Text after `first`, in lines of a terminal; the following ones begin where it did.
std::string hanging(const std::string& first, std::size_t width, const std::string& text) {
  return first + wrapped(text, width).substr(width);
}

/// One line a backend: how much was compared, what was skipped and, of a single experiment, why.
std::string backend_lines(const std::vector<BackendTotal>& totals, bool with_reasons) {
  std::string lines;
  for (const BackendTotal& total : totals) {
    std::string text = total.backend + " skipped";
    if (total.tasks)
      text = fmt::format("{}: {} results of {} operation{} compared, {} differ", total.backend, grouped(total.compared),
                         total.tasks, total.tasks == 1 ? "" : "s", grouped(total.differing));
    if (total.unanswered) text += fmt::format("; {} operands are not recorded", grouped(total.unanswered));
    if (total.unanswered_tasks)
      text += fmt::format("; {}{} operation{} not compared, because none of their operands is recorded",
                          total.unanswered_tasks, total.tasks ? " more" : "",
                          total.unanswered_tasks == 1 ? " is" : "s are");
    if (total.tasks && total.skipped_tasks)
      text += fmt::format("; {} operation{} skipped", total.skipped_tasks, total.skipped_tasks == 1 ? "" : "s");
    if (!total.reasons.empty() && (with_reasons || !total.tasks))
      text += fmt::format(": {}", fmt::join(total.reasons, "; "));
    if (total.tasks && total.skipped_tasks && !with_reasons) text += ", the reports say why";
    lines += wrapped(text, 0);
  }
  return lines;
}

/// In the colour of its verdict where there are any.
std::string counted(std::size_t number, std::string_view words, Paint paint, const Style& style) {
  const std::string text = fmt::format("{}{}", number, words);
  return number == 0 ? text : style.painted(text, paint);
}

/// "15 held, 0 failed, 1 differ, 2 skipped".
std::string counts_text(const Report& report, const Style& style) {
  return fmt::format("{}, {}, {}, {}", counted(report.verdicts()[Verdict::pass], " held", Paint::pass, style),
                     counted(report.verdicts()[Verdict::fail], " failed", Paint::fail, style),
                     counted(report.verdicts()[Verdict::differs], " differ", Paint::differs, style),
                     counted(report.verdicts()[Verdict::skipped], " skipped", Paint::skipped, style));
}

/// A JSON value in a sentence.
std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 100 ? text.substr(0, 97) + "..." : text;
}

/// A verdict in a margin of eleven characters, then text.
std::string verdict_line(Verdict verdict, const std::string& text, const Style& style) {
  const std::string word = verdict == Verdict::fail ? "FAIL" : std::string(name_of(verdict));
  return hanging("  " + style.verdict(fmt::format("{:<7}", word)) + "  ", 11, text);
}

/// Which claims are shown.
enum class Claims : std::uint8_t { all, that_did_not_hold, that_failed };

/// Claims that were skipped for one reason: without a data set they are many. Those that want other elements of a list
/// ("policies does not name O1", "policies does not name mxfp8") have one, too.
class Skipped {
 public:
  void add(const std::string& reason) {
    auto [head, missing] = parted(reason);
    Group& group = groups_[head];
    ++group.count;
    for (std::size_t end = 0; !missing.empty(); missing.erase(0, end + both.size())) {
      end = std::min(missing.find(both), missing.size());
      if (std::string name = missing.substr(0, end);
          std::find(group.missing.begin(), group.missing.end(), name) == group.missing.end())
        group.missing.push_back(std::move(name));
      if (end == missing.size()) break;
    }
  }
  /// "9 claims [policies does not name O1, mxfp8]" the first time a reason is asked for, then nothing. Of a single
  /// claim nothing too, and `single` is true.
  std::string text(const std::string& reason, bool& single) {
    const std::string head = parted(reason).first;
    Group& group = groups_[head];
    single = group.count == 1;
    if (single || std::exchange(group.told, true)) return {};
    return fmt::format("{} claims [{}{}]", group.count, head, fmt::join(group.missing, ", "));
  }

 private:
  static constexpr std::string_view both = " and ";  ///< between two elements that a reason misses
  struct Group {
    std::size_t count = 0;
    std::vector<std::string> missing;
    bool told = false;
  };
  /// "policies does not name " and "O1"; another reason as it is, and "".
  static std::pair<std::string, std::string> parted(const std::string& reason) {
    for (const std::string_view verb : {" does not name ", " does not contain "})
      if (const std::size_t at = reason.find(verb); at != reason.npos)
        if (const std::size_t end = at + verb.size(); reason.find(',', end) == reason.npos)
          return {reason.substr(0, end), reason.substr(end)};
    return {reason, ""};
  }

  std::map<std::string, Group> groups_;
};

/// Claims, then the comparisons that differ, or those that fail.
std::string claim_lines(const Finished& run, Claims which, const Style& style) {
  std::string lines;
  Skipped skipped;
  for (const Claim& claim : run.report.claims())
    if (claim.verdict == Verdict::skipped && which == Claims::that_did_not_hold) skipped.add(claim.reason);
  for (const Claim& claim : run.report.claims()) {
    if (claim.verdict == Verdict::pass && which != Claims::all) continue;
    if (claim.verdict != Verdict::fail && which == Claims::that_failed) continue;
    if (claim.verdict == Verdict::skipped && which == Claims::that_did_not_hold) {
      bool single = false;
      if (const std::string text = skipped.text(claim.reason, single); !text.empty())
        lines += verdict_line(claim.verdict, text, style);
      if (!single) continue;
    }
    std::string text = claim.statement;
    if (claim.verdict == Verdict::fail)
      text += fmt::format(" [{}: expected {}, {}; measured {}]", claim.id, shown(claim.expected), claim.tolerance,
                          shown(claim.measured));
    if (!claim.reason.empty()) text += " [" + claim.reason + "]";
    lines += verdict_line(claim.verdict, text, style);
  }
  for (const TaskComparison& c : run.report.comparisons())
    if (c.differing && (c.fails() || which != Claims::that_failed))
      lines += verdict_line(
          c.fails() ? Verdict::fail : Verdict::differs,
          fmt::format("{}: {} on {}: {} of {} code words differ{}", run.experiment->name, c.task.description(),
                      c.backend, grouped(c.differing), grouped(c.compared),
                      c.approximate ? fmt::format(", by {} units at most [{}]", c.farthest, c.route) : ""),
          style);
  return lines;
}

/// The question and what came out.
std::string story(const Finished& run, const std::string& name, const Style& style) {
  std::string text = wrapped(name + std::string(run.experiment->question), 0);
  if (!name.empty()) text = style.painted(name, Paint::heading) + text.substr(name.size());
  return run.report.finding().empty() ? text : text + wrapped(clean(run.report.finding()), 2);
}

std::string headline(const Finished& run, bool all, const Style& style) {
  const Headline& headline = run.experiment->headline;
  const Table* table = run.report.find_table(headline.table);
  if (!table) return {};
  return headline_text(table->to_json(), headline, all ? std::numeric_limits<std::size_t>::max() : headline_rows,
                       fmt::format("halfulp show {} {}", run.file, headline.table), style) +
         "\n";
}

}  // namespace

std::string summary(const Finished& run, bool verbose, const Style& style) {
  std::string text = story(run, "", style) + "\n" + headline(run, verbose, style);
  if (const std::string lines = claim_lines(run, verbose ? Claims::all : Claims::that_did_not_hold, style);
      !lines.empty())
    text += lines + "\n";
  text += fmt::format("claims: {}{}\n", counts_text(run.report, style), verbose ? "" : " (--verbose lists all)");
  std::vector<BackendTotal> totals;
  add_totals(run.report, totals);
  return text + backend_lines(totals, true) +
         fmt::format("report: {} ({:.1f} s); its tables: halfulp show {}\n", run.file, run.seconds, run.file);
}

std::string summary_table(const std::vector<Finished>& runs, bool verbose, const Style& style) {
  const std::vector<std::string> names{"claims", "held", "fail", "differ", "skip"};
  std::vector<std::vector<std::string>> cells;
  std::string stories, claims;
  std::vector<BackendTotal> totals;
  double seconds = 0;
  for (const Finished& run : runs) {
    const auto cell = [&](Verdict verdict, Paint paint) {
      return counted(run.report.verdicts()[verdict], "", paint, style);
    };
    cells.push_back({std::string(run.experiment->name), cell(Verdict::pass, Paint::pass),
                     cell(Verdict::fail, Paint::fail), cell(Verdict::differs, Paint::differs),
                     cell(Verdict::skipped, Paint::skipped)});
    stories += story(run, std::string(run.experiment->name) + ": ", style);
    if (verbose) stories += "\n" + headline(run, true, style);
    if (!run.experiment->retells) claims += claim_lines(run, verbose ? Claims::all : Claims::that_failed, style);
    add_totals(run.report, totals);
    seconds += run.seconds;
  }
  // Two experiments a line.
  const std::size_t lines = (cells.size() + 1) / 2;
  std::vector<std::vector<std::string>> rows(1);
  for (int side = 0; side < (cells.size() > 1 ? 2 : 1); ++side)
    for (const std::string& name : names) rows.front().push_back(style.painted(name, Paint::heading));
  for (std::size_t i = 0; i < lines; ++i) {
    rows.push_back(cells[i]);
    if (lines + i < cells.size())
      rows.back().insert(rows.back().end(), cells[lines + i].begin(), cells[lines + i].end());
  }
  const std::string& file = runs.front().file;
  return stories + "\n" + (claims.empty() ? "" : claims + "\n") + aligned(rows, 0, {1, 2, 3, 4, 6, 7, 8, 9}) + "\n" +
         backend_lines(totals, false) +
         fmt::format("{} report{} in {:.0f} s. The tables of one: halfulp show {}\n", runs.size(),
                     runs.size() == 1 ? "" : "s", seconds, file) +
         "To see its claims that differ, add: claims --where verdict=differs\n";
}

}  // namespace halfulp::cli
