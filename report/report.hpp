// A report: what was run, what came out, what was claimed and on which evidence. Written as JSON.
#pragma once

#include <halfulp/evidence/comparison.hpp>
#include <halfulp/report/config.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
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

/// pass and fail: follows from the format or the model. differs: a published figure not reproduced, shown as it is.
enum class Verdict : std::uint8_t { pass, fail, differs, skipped };
std::string_view name_of(Verdict verdict);

/// What a claim's expected value was obtained from, other than the code under test.
inline constexpr std::array<std::string_view, 5> independences{"oracle", "silicon", "recorded", "third-party",
                                                               "published"};

struct Claim {
  std::string id;         ///< kebab-case, unique in the report
  std::string statement;  ///< one sentence a student understands
  std::string
      source;  ///< citable: paper and section, specification, issue; "derived: ..." if it follows from the format
  Json expected;
  std::string tolerance;  ///< "exact", "absolute 1e-3", "at most", ...
  Json measured;
  Verdict verdict = Verdict::fail;
  std::string reason;        ///< of skipped and differs
  std::string independence;  ///< one of `independences`
};

/// measured == expected.
Claim exactly(std::string id, std::string statement, std::string source, Json expected, Json measured,
              std::string independence);
/// |measured - expected| <= tolerance. A miss is `on_miss`: fail for derived figures, differs for published ones.
Claim within(std::string id, std::string statement, std::string source, double expected, double tolerance,
             double measured, std::string independence, Verdict on_miss = Verdict::fail);
/// measured <= expected; `at_least` is its mirror.
Claim at_most(std::string id, std::string statement, std::string source, double expected, double measured,
              std::string independence, Verdict on_miss = Verdict::fail);
Claim at_least(std::string id, std::string statement, std::string source, double expected, double measured,
               std::string independence, Verdict on_miss = Verdict::fail);
/// A claim this configuration does not test ("formats does not contain bf16").
Claim skipped(std::string id, std::string statement, std::string source, std::string reason);

class Report {
 public:
  Report(std::string experiment, std::string title, const Config& config);

  /// Adds a table; the reference stays valid.
  Table& table(std::string name, std::string title, std::vector<Column> columns);
  /// Throws std::logic_error for an id already there and for a claim that says too little: no source, a skipped or
  /// differing one without reason, an unknown independence.
  void claim(Claim claim);
  void comparison(TaskComparison comparison);
  /// All that varies between machines and runs (environment.hpp).
  void environment(Json environment);

  /// As Config::to_json gave it.
  const Json& config() const { return config_; }
  /// The table of that name, or null.
  const Table* find_table(std::string_view name) const;
  const std::vector<Claim>& claims() const { return claims_; }
  const std::vector<TaskComparison>& comparisons() const { return comparisons_; }
  /// "fail" if a claim fails or a comparison differs, else "pass".
  std::string status() const;
  /// The whole report, as report/schema.json describes it.
  Json to_json() const;

 private:
  std::string experiment_, title_;
  Json config_;
  std::deque<Table> tables_;
  std::vector<Claim> claims_;
  std::vector<TaskComparison> comparisons_;
  Json environment_ = Json::object();
};

/// What `emulated` is to formats, for integers too, and for the result of a task: comparisons give 0 or 1.
Json code_word(const NumberType& type, std::uint64_t code);
Json result_word(const Task& task, std::uint64_t code);

/// The "comparisons" of a report: what was compared, then what was skipped, one entry a backend and reason.
Json comparisons_to_json(const std::vector<TaskComparison>& comparisons);

// When a measured value is the expected one: the rule a claim is judged by when it is made and again when it is read.

/// Whether `measured` is what was `expected`, by a claim's tolerance: "exact" (equal), "absolute X" (at most X away, or
/// equal), "at most" (measured <= expected), "at least". A NaN is at no distance from anything. Nothing where the
/// tolerance is none of these or asks for numbers that are not there.
std::optional<bool> satisfied(const Json& expected, std::string_view tolerance, const Json& measured);

}  // namespace halfulp
