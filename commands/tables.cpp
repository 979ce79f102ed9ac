#include <halfulp/commands/tables.hpp>

#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/claim.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace halfulp::cli {
namespace {

Json claims_table(const Json& claims) {
  static constexpr std::pair<const char*, const char*> members[] = {
      {"verdict",
       "Whether the claim holds: pass, fail (it must follow from a format or model, and does not), differs (a "
       "published figure that is not reproduced), skipped."},
      {"id", "The claim's name."},
      {"expected", "What was expected."},
      {"measured", "What was measured."},
      {"tolerance", "How near the two must be."},
      {"independence",
       "What the expected value was obtained from: oracle (rationals, a formula), silicon, recorded, third-party, "
       "published, emulation (none)."},
      {"source", "Who says so."},
      {"statement", "What is claimed."},
      {"reason", "Why the claim differs or was skipped."}};
  Json table{{"title", "Claims, and what was measured"}, {"columns", Json::array()}, {"rows", Json::array()}};
  for (const auto& [name, description] : members)
    table["columns"].push_back({{"name", name}, {"unit", ""}, {"description", description}});
  for (const Json& claim : claims) {
    Json row = Json::array();
    for (const auto& [name, description] : members) {
      const Json& value = claim.at(name);
      row.push_back(value.is_structured() ? Json(value.dump()) : value);
    }
    table["rows"].push_back(std::move(row));
  }
  return table;
}

}  // namespace

Json tables_with_claims(const Json& report) {
  Json tables = report.at("results");
  if (!tables.contains("claims")) tables["claims"] = claims_table(report.value("claims", Json::array()));
  return tables;
}

namespace {

constexpr std::size_t screen_width = 80;
constexpr std::size_t longest_cell = 160;  ///< of a table that is shown: policies and the like are longer
constexpr std::size_t shortest_cut = 16;   ///< names in a headline are not cut shorter, paths lose their beginning

/// A cell as a person reads it: some significant digits, and for emulated values their decimal value.
std::string cell_text(const Json& cell, int digits) {
  if (cell.is_object() && cell.contains("value")) return cell_text(cell["value"], digits);
  if (cell.is_string()) return clean(cell.get<std::string>());
  if (cell.is_null()) return "-";
  if (cell.is_number_float()) return fmt::format("{:.{}g}", cell.get<double>(), digits);
  return cell.dump();
}

/// A cell as a program reads it.
std::string csv_cell(const Json& cell) {
  if (cell.is_object() && cell.contains("value")) return csv_cell(cell["value"]);
  if (cell.is_null()) return "";
  const std::string text = cell.is_string() ? cell.get<std::string>() : cell.dump();
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// The whole of a text as a number, if it is one.
std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Whether a cell reads so in a table or as CSV, or is a number that is that, in full or as a table shows it: 1e-5 is
/// 1e-05.
bool reads(const Json& cell, const std::string& text) {
  if (cell_text(cell, 6) == text || csv_cell(cell) == text) return true;
  const std::optional<double> number = number_in(text);
  const Json& value = cell.is_object() && cell.contains("value") ? cell["value"] : cell;
  return number && value.is_number() && (value.get<double>() == *number || number_in(cell_text(cell, 6)) == number);
}

std::size_t column_at(const Json& table, std::string_view name) {
  const Json& columns = table["columns"];
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i]["name"] == name) return i;
  throw std::logic_error(fmt::format("a headline shows a column '{}' that is not there", name));
}

std::size_t asked_column(const Json& table, const std::string& name) {
  std::vector<std::string> names;
  for (const Json& column : table["columns"]) {
    if (column["name"] == name) return names.size();
    names.push_back(column["name"]);
  }
  throw std::invalid_argument(unknown_name("column", name, std::move(names)));
}

/// Cuts the longest names, column by column, until lines fit the screen.
void fit(std::vector<std::vector<std::string>>& cells, std::size_t indent) {
  std::vector<std::size_t> widths(cells.front().size());
  for (const auto& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::size_t all = indent + 2 * (widths.size() - 1);
  for (const std::size_t width : widths) all += width;
  while (all > screen_width) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= shortest_cut) break;
    const std::size_t width = *widest - std::min(*widest - shortest_cut, all - screen_width);
    all -= *widest - width;
    *widest = width;
  }
  for (auto& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (std::string& cell = row[i]; cell.size() > widths[i])
        cell = cell.find('/') == std::string::npos ? cut(cell, widths[i])
                                                   : "..." + cell.substr(cell.size() - widths[i] + 3);
}

/// The rows a headline chooses.
std::vector<const Json*> chosen_rows(const Json& table, const Headline& headline) {
  const Json& rows = table["rows"];
  std::vector<const Json*> chosen;
  for (const Json& row : rows) {
    bool fits = true;
    for (const auto& name : headline.first_of)
      fits = fits && row[column_at(table, name)] == rows[0][column_at(table, name)];
    if (fits) chosen.push_back(&row);
  }
  if (headline.last_of.empty()) return chosen;

  std::map<std::vector<Json>, std::size_t> places;
  std::vector<const Json*> last;
  for (const Json* row : chosen) {
    std::vector<Json> key;
    for (const auto& name : headline.last_of) key.push_back((*row)[column_at(table, name)]);
    const auto [at, fresh] = places.try_emplace(std::move(key), last.size());
    if (fresh) last.push_back(row);
    else last[at->second] = row;
  }
  return last;
}

}  // namespace

std::string table_text(const Json& table, const Style& style) {
  std::vector<std::vector<std::string>> rows(1);
  std::string legend;
  bool shortened = false;
  for (const Json& column : table["columns"]) {
    const auto name = column["name"].get<std::string>(), unit = column["unit"].get<std::string>();
    rows.front().push_back(style.painted(name, Paint::heading));
    legend += fmt::format("  {}: {}{}\n", name, column["description"].get<std::string>(),
                          unit.empty() || unit == "1" ? "" : " [" + unit + "]");
  }
  for (const Json& row : table["rows"]) {
    rows.emplace_back();
    for (const Json& cell : row) {
      std::string text = cell_text(cell, 6);
      if (text.size() > longest_cell) text = cut(text, longest_cell), shortened = true;
      rows.back().push_back(style.verdict(std::move(text)));
    }
  }
  return clean(table["title"].get<std::string>()) + "\n\n" + aligned(rows, 2) + "\n" + legend +
         (shortened ? "\nLong cells are cut; --csv has all of them, and --columns chooses some.\n" : "");
}

Json part_of(const Json& table, const TablePart& part) {
  std::vector<std::size_t> columns;
  for (const std::string& name : part.columns) {
    const std::size_t column = asked_column(table, name);
    if (std::find(columns.begin(), columns.end(), column) != columns.end())
      throw std::invalid_argument(fmt::format("--columns: {} is there twice", name));
    columns.push_back(column);
  }
  if (columns.empty())
    for (std::size_t i = 0; i < table["columns"].size(); ++i) columns.push_back(i);
  std::vector<std::pair<std::size_t, std::string>> where;
  for (const auto& [name, value] : part.where) where.emplace_back(asked_column(table, name), value);
  const auto some = [&](const Json& row) {
    Json cells = Json::array();
    for (const std::size_t column : columns) cells.push_back(row[column]);
    return cells;
  };
  Json result{{"title", table["title"]}, {"columns", some(table["columns"])}, {"rows", Json::array()}};
  if (!where.empty() && table["rows"].empty()) throw std::invalid_argument("--where: this table has no rows");
  // That no claim has a verdict is an answer; that no row has some other word is mostly a slip.
  const auto is_verdict = [&](std::size_t column, const std::string& value) {
    return table["columns"][column]["name"] == "verdict" &&
           std::find(verdict_names.begin(), verdict_names.end(), value) != verdict_names.end();
  };
  bool verdicts = false;
  for (const auto& [column, value] : where)
    if (is_verdict(column, value)) verdicts = true;
    else if (std::none_of(
                 table["rows"].begin(), table["rows"].end(),
                 [&, &column = column, &value = value](const Json& row) { return reads(row[column], value); })) {
      std::vector<std::string> values;
      for (const Json& row : table["rows"])
        if (std::string text = cell_text(row[column], 6); std::find(values.begin(), values.end(), text) == values.end())
          values.push_back(std::move(text));
      if (table["columns"][column]["name"] == "verdict") values.assign(verdict_names.begin(), verdict_names.end());
      const bool many = values.size() > 12;
      if (many) values.resize(12);
      throw std::invalid_argument(fmt::format("--where: no row has {} {}; accepted: {}{}",
                                              table["columns"][column]["name"].get<std::string>(), shown(value),
                                              fmt::join(values, ", "), many ? ", ..." : ""));
    }
  for (const Json& row : table["rows"])
    if (std::all_of(where.begin(), where.end(), [&](const auto& w) { return reads(row[w.first], w.second); }))
      result["rows"].push_back(some(row));
  if (!where.empty() && result["rows"].empty() && !verdicts)
    throw std::invalid_argument("--where: no row fulfils all of them");
  return result;
}

std::string table_csv(const Json& table) {
  std::string text;
  const auto line = [&](const Json& cells, auto&& text_of) {
    std::vector<std::string> all;
    for (const Json& cell : cells) all.push_back(text_of(cell));
    text += fmt::format("{}\n", fmt::join(all, ","));
  };
  line(table["columns"], [](const Json& column) { return csv_cell(column["name"]); });
  for (const Json& row : table["rows"]) line(row, csv_cell);
  return text;
}

std::string headline_text(const Json& table, const Headline& headline, std::size_t rows, const std::string& more,
                          const Style& style) {
  const std::vector<const Json*> chosen = chosen_rows(table, headline);
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& name : headline.columns) cells.front().emplace_back(name);
  for (std::size_t i = 0; i < chosen.size() && i < rows; ++i) {
    cells.emplace_back();
    for (const auto& name : headline.columns)
      cells.back().push_back(cell_text((*chosen[i])[column_at(table, name)], 4));
  }
  fit(cells, 2);
  for (std::string& name : cells.front()) name = style.painted(name, Paint::heading);
  for (std::size_t row = 1; row < cells.size(); ++row)
    for (std::string& cell : cells[row]) cell = style.verdict(cell);
  std::string title = clean(table["title"].get<std::string>());
  for (const auto& name : headline.first_of)
    if (!chosen.empty()) title += fmt::format("; {}: {}", name, cell_text(table["rows"][0][column_at(table, name)], 4));
  std::string text = wrapped(title, 0) + "\n" + aligned(cells, 2);
  const std::size_t hidden = table["rows"].size() - (cells.size() - 1);
  if (hidden > 0) text += fmt::format("  {} more row{}: {}\n", hidden, hidden == 1 ? "" : "s", more);
  return text;
}

}  // namespace halfulp::cli
