#include <halfulp/report/report.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace halfulp {

void Table::row(std::vector<Json> cells) {
  if (cells.size() != columns_.size())
    throw std::logic_error(
        fmt::format("table '{}' has {} columns, the row {} cells", name_, columns_.size(), cells.size()));
  rows_.push_back(std::move(cells));
}

Json Table::to_json() const {
  Json json = Json::object();
  json["title"] = title_;
  json["columns"] = Json::array();
  for (const Column& column : columns_) {
    Json described = Json::object();
    described["name"] = column.name;
    described["unit"] = column.unit;
    described["description"] = column.description;
    json["columns"].push_back(std::move(described));
  }
  json["rows"] = rows_;
  return json;
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

void Report::claim(Assertion what, Judgement made) {
  Claim claim{std::move(what), std::move(made)};
  // What the source says decides, not what a judgement takes for granted.
  if (claim.independence == "published") claim.independence = claim.source.independence();
  check(claim);
  for (const Claim& earlier : claims_)
    if (earlier.id == claim.id) throw std::logic_error("claim '" + claim.id + "' is there already");
  verdicts_.add(claim.verdict);
  claims_.push_back(std::move(claim));
}

void Report::comparison(TaskComparison comparison) { comparisons_.push_back(std::move(comparison)); }

void Report::environment(Json environment) { environment_ = std::move(environment); }

std::string Report::status() const {
  const bool failed = verdicts_[Verdict::fail] || std::any_of(comparisons_.begin(), comparisons_.end(),
                                                              [](const TaskComparison& c) { return c.fails(); });
  return failed ? "fail" : "pass";
}

Json Report::results() const {
  Json results = Json::object();
  for (const Table& table : tables_) results[table.name()] = table.to_json();
  return results;
}

Json Report::to_json() const {
  Json json = Json::object();
  json["schema_version"] = report_schema_version;
  json["experiment"] = experiment_;
  json["title"] = title_;
  json["finding"] = or_null(finding_);
  json["status"] = status();
  json["config"] = config_;
  json["environment"] = environment_;
  json["claims"] = Json::array();
  for (const Claim& claim : claims_) json["claims"].push_back(halfulp::to_json(claim));
  json["results"] = results();
  json["comparisons"] = comparisons_to_json(comparisons_);
  return json;
}

// Comparisons as a report shows them: every code word beside its value, tasks that were skipped alike in one entry.

namespace {

/// The value of an integer code word, sign-extended where the type has a sign.
Json integer_value(const IntegerType& type, std::uint64_t code) {
  if (!type.is_signed) return code;
  const int unused = 64 - type.bits;
  return static_cast<std::int64_t>(code << unused) >> unused;
}

Json to_json(const Task& task, const Mismatch& witness) {
  Json json = Json::object();
  json["operands"] = Json::array();
  for (int i = 0; i < witness.arity; ++i)
    json["operands"].push_back(code_word(task.from, witness.operands[static_cast<std::size_t>(i)]));
  json["emulated"] = result_word(task, witness.emulated);
  json["device"] = result_word(task, witness.device);
  return json;
}

Json to_json(const TaskComparison& comparison) {
  const Task& task = comparison.task;
  Json json = Json::object();
  json["backend"] = comparison.backend;
  json["independence"] = comparison.independence;
  json["operation"] = info(task.operation).name;
  json["from"] = number_type_name(task.from);
  json["to"] = number_type_name(task.to);
  json["rounding"] = name_of(task.rounding.mode);
  json["overflow"] = name_of(task.rounding.overflow);
  json["flush_inputs"] = task.rounding.flush_inputs;
  json["flush_outputs"] = task.rounding.flush_outputs;
  json["nan_rule"] = name_of(task.rounding.nan);
  json["route"] = comparison.route;
  json["compared"] = comparison.compared;
  json["differing"] = comparison.differing;
  if (comparison.approximate) json["approximate"] = true;
  if (comparison.farthest) json["farthest"] = comparison.farthest;
  if (comparison.unanswered) json["unanswered"] = comparison.unanswered;
  json["classes"] = comparison.classes;
  json["witnesses"] = Json::array();
  for (const Mismatch& witness : comparison.witnesses) json["witnesses"].push_back(to_json(task, witness));
  json["skipped"] = nullptr;
  return json;
}

}  // namespace

Json code_word(const NumberType& type, std::uint64_t code) {
  if (const auto* format = std::get_if<FloatFormat>(&type)) return emulated(*format, code);
  Json json = Json::object();
  json["code"] = fmt::format("0x{:0{}x}", code, hex_digits(type));
  json["value"] = integer_value(std::get<IntegerType>(type), code);
  return json;
}

Json result_word(const Task& task, std::uint64_t code) {
  if (info(task.operation).result != ResultKind::truth) return code_word(task.to, code);
  Json json = Json::object();
  json["code"] = fmt::format("0x{:x}", code);
  json["value"] = code;
  return json;
}

Json comparisons_to_json(const std::vector<TaskComparison>& comparisons) {
  Json compared = Json::array(), skipped = Json::array();
  for (const TaskComparison& comparison : comparisons) {
    if (comparison.skipped.empty()) {
      compared.push_back(to_json(comparison));
      continue;
    }
    const auto alike = [&](const Json& entry) {
      return entry.at("backend") == comparison.backend && entry.at("skipped") == comparison.skipped;
    };
    auto entry = std::find_if(skipped.begin(), skipped.end(), alike);
    if (entry == skipped.end()) {
      Json fresh = Json::object();
      fresh["backend"] = comparison.backend;
      fresh["independence"] = comparison.independence;
      fresh["tasks"] = Json::array();
      fresh["skipped"] = comparison.skipped;
      skipped.push_back(std::move(fresh));
      entry = std::prev(skipped.end());
    }
    entry->at("tasks").push_back(comparison.task.description());
  }
  for (Json& entry : skipped) compared.push_back(std::move(entry));
  return compared;
}

}  // namespace halfulp
