#include <halfulp/report/difference.hpp>

#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace halfulp {
namespace {

/// Cells listed of each table and kind; the rest are counted.
constexpr std::size_t listed = 8;

std::string text(const Json& value) {
  if (value.is_object() && value.contains("code"))
    return fmt::format("{} ({})", value.at("code").get<std::string>(), value.at("value").dump());
  return clean(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool is_code(const Json& value) {
  if (value.is_object()) return value.contains("code");
  return value.is_string() && value.get<std::string>().starts_with("0x");
}

/// ", by 1e-16" where both are numbers.
std::string distance(const Json& first, const Json& second) {
  if (first.is_number() && second.is_number())
    return fmt::format(", by {:.3g}", second.get<double>() - first.get<double>());
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
    if (lines.size() < listed)
      lines.push_back(fmt::format("  {}: {} | {}{}\n", where, text(first), text(second), distance(first, second)));
  }
};

std::string listing(const std::string& table, std::string_view kind, const std::vector<std::string>& lines,
                    std::size_t count) {
  if (lines.empty()) return {};
  std::string out = fmt::format("table {}: {} {} differ\n{}", table, count, kind, fmt::join(lines, ""));
  if (count > lines.size()) out += fmt::format("  ... and {} more\n", count - lines.size());
  return out;
}

/// Leading columns whose cells name a row.
std::vector<Json> name_of_row(const Json& row, std::size_t columns) {
  return std::vector<Json>(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(columns));
}

bool names_each_row(const Json& rows, std::size_t columns) {
  std::set<std::vector<Json>> names;
  return std::all_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return names.insert(name_of_row(row, columns)).second; });
}

/// How many leading columns name the rows of both tables: all that hold text, and as many more as it takes to tell the
/// rows apart (their parameters). None if nothing does.
std::size_t name_columns(const Json& first, const Json& second) {
  const auto is_text = [](const Json& rows, std::size_t column) {
    return std::all_of(rows.begin(), rows.end(),
                       [&](const Json& row) { return row[column].is_string() && !is_code(row[column]); });
  };
  const Json &a = first.at("rows"), &b = second.at("rows");
  const std::size_t columns = first.at("columns").size();
  std::size_t names = 0;
  while (names < columns && is_text(a, names) && is_text(b, names)) ++names;
  for (names = std::max<std::size_t>(names, 1); names <= columns; ++names)
    if (names_each_row(a, names) && names_each_row(b, names)) return names;
  return 0;
}

/// "row 9 (fp16 10)".
std::string row_text(const Json& row, std::size_t index, std::size_t names) {
  std::string label;
  for (std::size_t i = 0; i < names; ++i)
    label += (i ? " " : "") + (row[i].is_string() ? clean(row[i].get<std::string>()) : text(row[i]));
  return fmt::format("row {}{}", index, names ? " (" + label + ")" : "");
}

/// Which row of each table stands for which of the other: those of the same name, by position where rows have no names.
struct Pairing {
  std::size_t names = 0;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<std::size_t> only_first, only_second;
  bool reordered = false;
};

Pairing paired(const Json& first, const Json& second) {
  const Json &a = first.at("rows"), &b = second.at("rows");
  Pairing result;
  result.names = name_columns(first, second);
  std::map<std::vector<Json>, std::size_t> places;
  const auto name = [&](const Json& rows, std::size_t row) {
    return result.names ? name_of_row(rows[row], result.names) : std::vector<Json>{row};
  };
  for (std::size_t row = 0; row < b.size(); ++row) places[name(b, row)] = row;
  std::vector<bool> met(b.size(), false);
  for (std::size_t row = 0; row < a.size(); ++row) {
    const auto at = places.find(name(a, row));
    if (at == places.end()) {
      result.only_first.push_back(row);
      continue;
    }
    met[at->second] = true;
    result.reordered = result.reordered || (!result.pairs.empty() && at->second < result.pairs.back().second);
    result.pairs.emplace_back(row, at->second);
  }
  for (std::size_t row = 0; row < b.size(); ++row)
    if (!met[row]) result.only_second.push_back(row);
  return result;
}

/// Cells of paired rows. Both tables have the same columns.
Differences compare_rows(const Json& first, const Json& second, const Pairing& pairing) {
  Differences differences;
  const Json& columns = first.at("columns");
  for (const auto& [i, j] : pairing.pairs) {
    const Json &a = first.at("rows")[i], &b = second.at("rows")[j];
    for (std::size_t column = 0; column < columns.size(); ++column)
      if (a[column] != b[column])
        differences.add(a[column], b[column],
                        row_text(a, i, pairing.names) + ", " + columns[column].at("name").get<std::string>());
  }
  return differences;
}

/// Rows that only one report has, the first few by name.
std::string lone_rows(const std::string& table, const Json& rows, const std::vector<std::size_t>& lone,
                      std::string_view which, std::size_t names) {
  if (lone.empty()) return {};
  std::string out = fmt::format("table {}: {} row{} only in the {} report\n", table, lone.size(),
                                lone.size() == 1 ? "" : "s", which);
  for (std::size_t i = 0; i < lone.size() && i < listed; ++i)
    out += fmt::format("  {}\n", row_text(rows[lone[i]], lone[i], names));
  if (lone.size() > listed) out += fmt::format("  ... and {} more\n", lone.size() - listed);
  return out;
}

struct Parts {
  std::string codes, numbers, other;
};

void compare_table(const std::string& name, const Json& first, const Json& second, Parts& parts) {
  std::vector<std::string> columns[2];
  for (const auto& [table, names] : {std::pair{&first, &columns[0]}, std::pair{&second, &columns[1]}})
    for (const Json& column : table->at("columns")) names->push_back(column.at("name"));
  if (columns[0] != columns[1]) {
    parts.other += fmt::format("table {}: columns {} | {}\n", name, fmt::join(columns[0], " "),
                               fmt::join(columns[1], " "));
    return;
  }
  const Pairing pairing = paired(first, second);
  parts.other += lone_rows(name, first.at("rows"), pairing.only_first, "first", pairing.names) +
                 lone_rows(name, second.at("rows"), pairing.only_second, "second", pairing.names);
  if (pairing.reordered) parts.other += fmt::format("table {}: rows in another order\n", name);
  const Differences found = compare_rows(first, second, pairing);
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
  const auto only = [&](const Json& id, int which) {
    out += fmt::format("claim {}: only in the {} report\n", id.get<std::string>(), which == 1 ? "first" : "second");
  };
  for (const Json& claim : first.at("claims")) {
    const Json* other = find_claim(second, claim.at("id"));
    if (!other) {
      only(claim.at("id"), 1);
      continue;
    }
    for (const char* part : {"expected", "measured", "verdict"})
      if (claim.at(part) != other->at(part))
        out += fmt::format("claim {}: {} {} | {}\n", claim.at("id").get<std::string>(), part, text(claim.at(part)),
                           text(other->at(part)));
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
    throw std::invalid_argument(fmt::format("reports of different experiments: {} and {}", text(first.at("experiment")),
                                            text(second.at("experiment"))));
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
