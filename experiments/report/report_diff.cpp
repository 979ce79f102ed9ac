#include <halfulp/experiments/report/report_diff.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

/// Cells listed of each table and kind; the rest are counted.
constexpr std::size_t listed = 8;

std::string text(const Json& value) {
  if (value.is_object() && value.contains("code"))
    return fmt::format("{} ({})", value.at("code").get<std::string>(), value.at("value").dump());
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_code(const Json& value) {
  if (value.is_object()) return value.contains("code");
  return value.is_string() && value.get<std::string>().starts_with("0x");
}

/// ", by 1e-16" where both are numbers.
std::string distance(const Json& first, const Json& second) {
  if (first.is_number() && second.is_number()) return fmt::format(", by {:.3g}", second.get<double>() - first.get<double>());
  return {};
}

std::vector<std::string> members(const Json& first, const Json& second) {
  std::vector<std::string> names;
  for (const Json* object : {&first, &second})
    for (const auto& [name, value] : object->items())
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

struct Differences {
  std::vector<std::string> codes, numbers;
  std::size_t code_count = 0, number_count = 0;

  void add(const Json& first, const Json& second, const std::string& where) {
    const bool code = is_code(first) || is_code(second);
    auto& lines = code ? codes : numbers;
    ++(code ? code_count : number_count);
    if (lines.size() < listed) lines.push_back(fmt::format("  {}: {} | {}{}\n", where, text(first), text(second), distance(first, second)));
  }
};

std::string listing(const std::string& table, std::string_view kind, const std::vector<std::string>& lines, std::size_t count) {
  if (lines.empty()) return {};
  std::string out = fmt::format("table {}: {} {} differ\n{}", table, count, kind, fmt::join(lines, ""));
  if (count > lines.size()) out += fmt::format("  ... and {} more\n", count - lines.size());
  return out;
}

/// The column of a table that names its rows: cells of the first ones, up to the first number.
std::string row_name(const Json& row, std::size_t index) {
  std::string name = fmt::format("row {}", index);
  std::string label;
  for (const Json& cell : row) {
    if (!cell.is_string() || is_code(cell)) break;
    label += (label.empty() ? "" : " ") + cell.get<std::string>();
  }
  return label.empty() ? name : name + " (" + label + ")";
}

/// Both tables have the same columns.
Differences compare_rows(const Json& first, const Json& second) {
  Differences differences;
  const Json &a = first.at("rows"), &b = second.at("rows"), &columns = first.at("columns");
  for (std::size_t row = 0; row < std::min(a.size(), b.size()); ++row)
    for (std::size_t column = 0; column < columns.size(); ++column)
      if (a[row][column] != b[row][column])
        differences.add(a[row][column], b[row][column],
                        row_name(a[row], row) + ", " + columns[column].at("name").get<std::string>());
  return differences;
}

struct Parts {
  std::string codes, numbers, other;
};

void compare_table(const std::string& name, const Json& first, const Json& second, Parts& parts) {
  std::vector<std::string> columns[2];
  for (const auto& [table, names] : {std::pair{&first, &columns[0]}, std::pair{&second, &columns[1]}})
    for (const Json& column : table->at("columns")) names->push_back(column.at("name"));
  if (columns[0] != columns[1]) {
    parts.other += fmt::format("table {}: columns {} | {}\n", name, fmt::join(columns[0], " "), fmt::join(columns[1], " "));
    return;
  }
  if (first.at("rows").size() != second.at("rows").size())
    parts.other += fmt::format("table {}: {} rows | {} rows\n", name, first.at("rows").size(), second.at("rows").size());
  const Differences found = compare_rows(first, second);
  parts.codes += listing(name, "code words", found.codes, found.code_count);
  parts.numbers += listing(name, "other cells", found.numbers, found.number_count);
}

const Json* find_claim(const Json& report, const Json& id) {
  for (const Json& claim : report.at("claims"))
    if (claim.at("id") == id) return &claim;
  return nullptr;
}

std::string compare_claims(const Json& first, const Json& second) {
  std::string out;
  const auto only = [&](const Json& id, int which) { out += fmt::format("claim {}: only in the {} report\n", id.get<std::string>(), which == 1 ? "first" : "second"); };
  for (const Json& claim : first.at("claims")) {
    const Json* other = find_claim(second, claim.at("id"));
    if (!other) {
      only(claim.at("id"), 1);
      continue;
    }
    for (const char* part : {"expected", "measured", "verdict"})
      if (claim.at(part) != other->at(part))
        out += fmt::format("claim {}: {} {} | {}\n", claim.at("id").get<std::string>(), part, text(claim.at(part)), text(other->at(part)));
  }
  for (const Json& claim : second.at("claims"))
    if (!find_claim(first, claim.at("id"))) only(claim.at("id"), 2);
  return out;
}

std::string compare_configurations(const Json& first, const Json& second) {
  std::string out;
  for (const std::string& name : members(first, second)) {
    const auto value = [&](const Json& config) { return config.contains(name) ? text(config.at(name)) : "absent"; };
    if (value(first) != value(second)) out += fmt::format("config {}: {} | {}\n", name, value(first), value(second));
  }
  return out;
}

}  // namespace

ReportDiff diff_reports(const Json& first, const Json& second) {
  if (first.at("experiment") != second.at("experiment"))
    throw std::invalid_argument(fmt::format("reports of different experiments: {} and {}", text(first.at("experiment")), text(second.at("experiment"))));
  Parts parts;
  const Json &a = first.at("results"), &b = second.at("results");
  for (const std::string& name : members(a, b)) {
    if (a.contains(name) && b.contains(name)) compare_table(name, a.at(name), b.at(name), parts);
    else parts.other += fmt::format("table {}: only in the {} report\n", name, a.contains(name) ? "first" : "second");
  }
  const std::string results = parts.codes + parts.numbers + parts.other + compare_claims(first, second);
  return {!results.empty(), compare_configurations(first.at("config"), second.at("config")) +
                                (results.empty() ? "results are identical\n" : results + "results differ\n")};
}

}  // namespace halfulp
