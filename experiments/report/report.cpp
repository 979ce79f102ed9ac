#include <halfulp/experiments/report/report.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/report/tolerance.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace halfulp {
namespace {

/// A number in a sentence: shortest digits that read back.
std::string text(double value) { return fmt::format("{}", value); }
std::string in_words(const Json& number) { return number.is_number() ? text(number.get<double>()) : number.get<std::string>(); }

/// Decides the verdict; a miss of a published figure says so in words.
Claim judged(Claim claim, Verdict on_miss) {
  const auto holds = satisfied(claim.expected, claim.tolerance, claim.measured);
  if (!holds) throw std::logic_error(fmt::format("claim '{}': tolerance '{}' does not apply", claim.id, claim.tolerance));
  claim.verdict = *holds ? Verdict::pass : on_miss;
  if (claim.verdict == Verdict::differs)
    claim.reason = fmt::format("measured {} where the source has {}", in_words(claim.measured), in_words(claim.expected));
  return claim;
}

void check(const Claim& claim) {
  const auto refuse = [&](std::string_view what) {
    throw std::logic_error(fmt::format("claim '{}': {}", claim.id, what));
  };
  if (claim.id.empty() || claim.statement.empty() || claim.source.empty()) refuse("id, statement and source must be there");
  const bool excused = claim.verdict == Verdict::skipped || claim.verdict == Verdict::differs;
  if (excused == claim.reason.empty()) refuse("a reason belongs to skipped and differs, and to nothing else");
  if (claim.verdict == Verdict::skipped) return;
  if (claim.tolerance.empty()) refuse("a tolerance must be there");
  if (std::find(independences.begin(), independences.end(), claim.independence) == independences.end())
    refuse("unknown independence '" + claim.independence + "'");
}

Json to_json(const Claim& claim) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json json;
  json["id"] = claim.id;
  json["statement"] = claim.statement;
  json["source"] = claim.source;
  json["expected"] = claim.expected;
  json["tolerance"] = or_null(claim.tolerance);
  json["measured"] = claim.measured;
  json["verdict"] = name_of(claim.verdict);
  json["reason"] = or_null(claim.reason);
  json["independence"] = or_null(claim.independence);
  return json;
}

}  // namespace

Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json emulated(const FloatFormat& format, std::uint64_t code) {
  Json json;
  json["code"] = print_code(format, code);
  json["value"] = number(format.value(code));
  return json;
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::fail: return "fail";
    case Verdict::differs: return "differs";
    case Verdict::skipped: return "skipped";
  }
  return {};
}

void Table::row(std::vector<Json> cells) {
  if (cells.size() != columns_.size())
    throw std::logic_error(fmt::format("table '{}' has {} columns, the row {} cells", name_, columns_.size(), cells.size()));
  rows_.push_back(std::move(cells));
}

Json Table::to_json() const {
  Json json;
  json["title"] = title_;
  json["columns"] = Json::array();
  for (const Column& column : columns_) {
    Json described;
    described["name"] = column.name;
    described["unit"] = column.unit;
    described["description"] = column.description;
    json["columns"].push_back(std::move(described));
  }
  json["rows"] = rows_;
  return json;
}

Claim exactly(std::string id, std::string statement, std::string source, Json expected, Json measured, std::string independence) {
  return judged({std::move(id), std::move(statement), std::move(source), std::move(expected), "exact", std::move(measured), Verdict::fail, "",
                 std::move(independence)}, Verdict::fail);
}

Claim within(std::string id, std::string statement, std::string source, double expected, double tolerance, double measured,
             std::string independence, Verdict on_miss) {
  return judged({std::move(id), std::move(statement), std::move(source), number(expected), "absolute " + text(tolerance), number(measured),
                 Verdict::fail, "", std::move(independence)}, on_miss);
}

Claim at_most(std::string id, std::string statement, std::string source, double expected, double measured,
              std::string independence, Verdict on_miss) {
  return judged({std::move(id), std::move(statement), std::move(source), number(expected), "at most", number(measured), Verdict::fail, "",
                 std::move(independence)}, on_miss);
}

Claim at_least(std::string id, std::string statement, std::string source, double expected, double measured,
               std::string independence, Verdict on_miss) {
  return judged({std::move(id), std::move(statement), std::move(source), number(expected), "at least", number(measured), Verdict::fail, "",
                 std::move(independence)}, on_miss);
}

Claim skipped(std::string id, std::string statement, std::string source, std::string reason) {
  return {std::move(id), std::move(statement), std::move(source), {}, "", {}, Verdict::skipped, std::move(reason), ""};
}

Report::Report(std::string experiment, std::string title, const Config& config)
    : experiment_(std::move(experiment)), title_(std::move(title)), config_(config.to_json()) {}

Table& Report::table(std::string name, std::string title, std::vector<Column> columns) {
  if (find_table(name)) throw std::logic_error("table '" + name + "' is there already");
  return tables_.emplace_back(std::move(name), std::move(title), std::move(columns));
}

const Table* Report::find_table(std::string_view name) const {
  for (const Table& table : tables_)
    if (table.name() == name) return &table;
  return nullptr;
}

void Report::claim(Claim claim) {
  check(claim);
  for (const Claim& earlier : claims_)
    if (earlier.id == claim.id) throw std::logic_error("claim '" + claim.id + "' is there already");
  claims_.push_back(std::move(claim));
}

void Report::comparison(Comparison comparison) { comparisons_.push_back(std::move(comparison)); }

void Report::environment(Json environment) { environment_ = std::move(environment); }

std::string Report::status() const {
  const bool failed = std::any_of(claims_.begin(), claims_.end(), [](const Claim& c) { return c.verdict == Verdict::fail; }) ||
                      std::any_of(comparisons_.begin(), comparisons_.end(), [](const Comparison& c) { return c.fails(); });
  return failed ? "fail" : "pass";
}

Json Report::to_json() const {
  Json json;
  json["schema_version"] = report_schema_version;
  json["experiment"] = experiment_;
  json["title"] = title_;
  json["status"] = status();
  json["config"] = config_;
  json["environment"] = environment_;
  json["claims"] = Json::array();
  for (const Claim& claim : claims_) json["claims"].push_back(halfulp::to_json(claim));
  json["results"] = Json::object();
  for (const Table& table : tables_) json["results"][table.name()] = table.to_json();
  json["comparisons"] = comparisons_to_json(comparisons_);
  return json;
}

}  // namespace halfulp
