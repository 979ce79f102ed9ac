// A report: what was run, what came out, what was claimed and on which evidence. Written as JSON.
#pragma once

#include <halfulp/evidence/comparison.hpp>
#include <halfulp/report/claim.hpp>
#include <halfulp/report/config.hpp>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A value of an emulated format: {"code": "0x7bff", "value": 65504.0}.
Json emulated(const FloatFormat& format, std::uint64_t code);

struct Column {
  std::string name;         ///< snake_case
  std::string unit;         ///< "" for names, "1" for pure numbers, "ulp", "token", ...
  std::string description;  ///< one sentence
};

/// A named table of results: every row has one cell a column.
class Table {
 public:
  Table(std::string name, std::string title, std::vector<Column> columns)
      : name_(std::move(name)), title_(std::move(title)), columns_(std::move(columns)) {}
  /// Throws std::logic_error if the number of cells is not the number of columns.
  void row(std::vector<Json> cells);
  const std::string& name() const { return name_; }
  Json to_json() const;

 private:
  std::string name_, title_;
  std::vector<Column> columns_;
  std::vector<std::vector<Json>> rows_;
};

class Report {
 public:
  Report(std::string experiment, std::string title, const Config& config);

  /// Adds a table; the reference stays valid.
  Table& table(std::string name, std::string title, std::vector<Column> columns);
  /// Throws std::logic_error for an id that is there already, and where `check` does.
  void claim(Assertion what, Judgement made);
  /// Skipped for the reason `unmet` unless that is empty; `judge` measures and gives the judgement.
  template <class Judge>
  void claim(Assertion what, std::string unmet, Judge&& judge) {
    claim(std::move(what), unmet.empty() ? judge() : skipped(std::move(unmet)));
  }
  void comparison(TaskComparison comparison);
  /// One sentence that answers the experiment's question; empty where this configuration gives none.
  void finding(std::string sentence) { finding_ = std::move(sentence); }
  const std::string& finding() const { return finding_; }
  /// All that varies between machines and runs (environment.hpp).
  void environment(Json environment);

  /// As Config::to_json gave it.
  const Json& config() const { return config_; }
  /// The table of that name, or null.
  const Table* find_table(std::string_view name) const;
  const std::vector<Claim>& claims() const { return claims_; }
  const VerdictCounts& verdicts() const { return verdicts_; }
  const std::vector<TaskComparison>& comparisons() const { return comparisons_; }
  /// "fail" if a claim fails or a comparison differs, else "pass".
  std::string status() const;
  /// Its tables by name.
  Json results() const;
  /// The whole report, as report/schema.json describes it.
  Json to_json() const;

 private:
  std::string experiment_, title_, finding_;
  Json config_;
  std::deque<Table> tables_;
  std::vector<Claim> claims_;
  VerdictCounts verdicts_;
  std::vector<TaskComparison> comparisons_;
  Json environment_ = Json::object();
};

/// What `emulated` is to formats, for integers too, and for the result of a task: comparisons give 0 or 1.
Json code_word(const NumberType& type, std::uint64_t code);
Json result_word(const Task& task, std::uint64_t code);

/// The "comparisons" of a report: what was compared, then what was skipped, one entry a backend and reason.
Json comparisons_to_json(const std::vector<TaskComparison>& comparisons);

}  // namespace halfulp
