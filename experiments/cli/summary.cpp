#include <halfulp/experiments/cli/summary.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

namespace halfulp::cli {
namespace {

/// What one backend had to say in one report.
struct BackendTotal {
  std::string backend;
  std::uint64_t compared = 0, differing = 0, tasks = 0, skipped_tasks = 0;
  std::vector<std::string> reasons;  ///< of what was skipped, each once
};

std::vector<BackendTotal> backend_totals(const Report& report) {
  std::vector<BackendTotal> totals;
  for (const Comparison& comparison : report.comparisons()) {
    auto total = std::find_if(totals.begin(), totals.end(), [&](const auto& t) { return t.backend == comparison.backend; });
    if (total == totals.end()) total = totals.insert(totals.end(), BackendTotal{comparison.backend, 0, 0, 0, 0, {}});
    if (comparison.skipped.empty()) {
      total->compared += comparison.compared;
      total->differing += comparison.differing;
      ++total->tasks;
    } else {
      ++total->skipped_tasks;
      if (std::find(total->reasons.begin(), total->reasons.end(), comparison.skipped) == total->reasons.end())
        total->reasons.push_back(comparison.skipped);
    }
  }
  return totals;
}

/// "1,234,567".
std::string grouped(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string described(const BackendTotal& total) {
  if (total.tasks == 0) return total.backend + " skipped";
  return fmt::format("{} {} compared, {} differ", total.backend, grouped(total.compared), grouped(total.differing));
}

std::size_t count(const Report& report, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(report.claims().begin(), report.claims().end(), [&](const Claim& c) { return c.verdict == verdict; }));
}

std::string coloured(std::string text, Verdict verdict, const Style& style) {
  if (!style.colour) return text;
  const char* colour = verdict == Verdict::pass ? "32" : verdict == Verdict::fail ? "1;31" : "33";
  return fmt::format("\033[{}m{}\033[0m", colour, text);
}

/// A JSON value in a sentence.
std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 100 ? text.substr(0, 97) + "..." : text;
}

std::string claim_line(const Claim& claim, const Style& style) {
  const std::string word = claim.verdict == Verdict::fail ? "FAIL" : std::string(name_of(claim.verdict));
  std::string line = "  " + coloured(fmt::format("{:<7}", word), claim.verdict, style) + "  " + claim.statement;
  if (claim.verdict == Verdict::fail)
    line += fmt::format(" [{}: expected {}, {}; measured {}]", claim.id, shown(claim.expected), claim.tolerance, shown(claim.measured));
  if (!claim.reason.empty()) line += " [" + claim.reason + "]";
  return line + "\n";
}

std::string difference_lines(const std::string& experiment, const Report& report, const Style& style) {
  std::string lines;
  for (const Comparison& c : report.comparisons())
    if (c.differing)
      lines += fmt::format("  {}  {}: {} on {}: {} of {} code words differ\n", coloured("FAIL   ", Verdict::fail, style), experiment,
                           c.task.description(), c.backend, grouped(c.differing), grouped(c.compared));
  return lines;
}

using Cells = std::array<std::string, 8>;

/// Columns as wide as their widest cell; numbers to the right. The last column is as long as it is.
std::string aligned(const std::vector<Cells>& rows) {
  std::array<std::size_t, std::tuple_size_v<Cells>> width{};
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < width.size(); ++i) {
      const bool is_number = (i >= 1 && i <= 4) || i == 6, last = i + 1 == width.size();
      const std::string padding(last ? 0 : width[i] - rows[r][i].size(), ' ');
      line += (i ? "  " : "") + (is_number ? padding + rows[r][i] : rows[r][i] + padding);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (r == 0) {
      std::size_t length = 2 * (width.size() - 1);
      for (const std::size_t w : width) length += w;
      text += std::string(length, '-') + "\n";
    }
  }
  return text;
}

}  // namespace

std::string summary(const Finished& run, const Style& style) {
  std::string text = run.experiment + "\n";
  for (const Claim& claim : run.report.claims()) text += claim_line(claim, style);
  text += difference_lines(run.experiment, run.report, style);
  text += fmt::format("claims: {} held, {} failed, {} differ, {} skipped\n", count(run.report, Verdict::pass),
                      count(run.report, Verdict::fail), count(run.report, Verdict::differs), count(run.report, Verdict::skipped));
  for (const BackendTotal& total : backend_totals(run.report)) {
    text += described(total);
    if (total.tasks) text += fmt::format(" in {} operations", total.tasks);
    if (total.tasks && total.skipped_tasks) text += fmt::format("; {} operations skipped", total.skipped_tasks);
    text += fmt::format("{}{}\n", total.reasons.empty() ? "" : ": ", fmt::join(total.reasons, "; "));
  }
  return text + fmt::format("report: {} ({:.1f} s); its tables: halfulp show {}\n", run.file, run.seconds, run.file);
}

std::string summary_table(const std::vector<Finished>& runs, const Style& style) {
  std::vector<Cells> rows{{"experiment", "held", "failed", "differ", "skipped", "backends", "time", "file"}};
  std::string failures;
  std::vector<std::string> notes;
  for (const Finished& run : runs) {
    std::string backends;
    for (const BackendTotal& total : backend_totals(run.report)) {
      backends += (backends.empty() ? "" : "; ") + described(total);
      if (total.tasks) continue;
      for (const std::string& reason : total.reasons) {
        std::string note = fmt::format("  {} skipped: {}\n", total.backend, reason);
        if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
      }
    }
    rows.push_back({run.experiment, std::to_string(count(run.report, Verdict::pass)), std::to_string(count(run.report, Verdict::fail)),
                    std::to_string(count(run.report, Verdict::differs)), std::to_string(count(run.report, Verdict::skipped)),
                    backends.empty() ? "emulated" : backends, fmt::format("{:.1f} s", run.seconds), run.file});
    for (const Claim& claim : run.report.claims())
      if (claim.verdict == Verdict::fail || claim.verdict == Verdict::differs) failures += claim_line(claim, style);
    failures += difference_lines(run.experiment, run.report, style);
  }
  std::string text = aligned(rows);
  if (!failures.empty()) text += "\n" + failures;
  if (!notes.empty()) text += fmt::format("\n{}", fmt::join(notes, ""));
  return text;
}

}  // namespace halfulp::cli
