#include <halfulp/experiments/cli/table_text.hpp>

#include <halfulp/experiments/cli/output.hpp>

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace halfulp::cli {
namespace {

constexpr std::size_t longest_name = 16;  ///< of a cell in a headline: the end of a file's path

/// A cell as a person reads it: some significant digits, and for emulated values their decimal value.
std::string cell_text(const Json& cell, int digits) {
  if (cell.is_object() && cell.contains("value")) return cell_text(cell["value"], digits);
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_null()) return "-";
  if (cell.is_number_float()) return fmt::format("{:.{}g}", cell.get<double>(), digits);
  return cell.dump();
}

std::size_t column_at(const Json& table, std::string_view name) {
  const Json& columns = table["columns"];
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i]["name"] == name) return i;
  throw std::logic_error(fmt::format("a headline shows a column '{}' that is not there", name));
}

/// The rows a headline chooses.
std::vector<const Json*> chosen_rows(const Json& table, const Headline& headline) {
  const Json& rows = table["rows"];
  std::vector<const Json*> chosen;
  for (const Json& row : rows) {
    bool fits = true;
    for (const auto& name : headline.first_of) fits = fits && row[column_at(table, name)] == rows[0][column_at(table, name)];
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

std::string table_text(const Json& table) {
  std::vector<std::vector<std::string>> rows(1);
  std::string legend;
  for (const Json& column : table["columns"]) {
    const auto name = column["name"].get<std::string>(), unit = column["unit"].get<std::string>();
    rows.front().push_back(name);
    legend += fmt::format("  {}: {}{}\n", name, column["description"].get<std::string>(),
                          unit.empty() || unit == "1" ? "" : " [" + unit + "]");
  }
  for (const Json& row : table["rows"]) {
    rows.emplace_back();
    for (const Json& cell : row) rows.back().push_back(cell_text(cell, 6));
  }
  return table["title"].get<std::string>() + "\n\n" + aligned(rows, 2) + "\n" + legend;
}

std::string headline_text(const Json& table, const Headline& headline, std::size_t rows, const std::string& more) {
  const std::vector<const Json*> chosen = chosen_rows(table, headline);
  std::vector<std::vector<std::string>> cells(1);
  for (const auto& name : headline.columns) cells.front().emplace_back(name);
  for (std::size_t i = 0; i < chosen.size() && i < rows; ++i) {
    cells.emplace_back();
    for (const auto& name : headline.columns) {
      const std::string cell = cell_text((*chosen[i])[column_at(table, name)], 4);
      cells.back().push_back(cell.size() <= longest_name ? cell : "..." + cell.substr(cell.size() - longest_name + 3));
    }
  }
  std::string title = table["title"].get<std::string>();
  for (const auto& name : headline.first_of)
    if (!chosen.empty()) title += fmt::format("; {}: {}", name, cell_text(table["rows"][0][column_at(table, name)], 4));
  std::string text = wrapped(title, 0) + "\n" + aligned(cells, 2);
  const std::size_t hidden = table["rows"].size() - (cells.size() - 1);
  if (hidden > 0) text += fmt::format("  {} more row{}: {}\n", hidden, hidden == 1 ? "" : "s", more);
  return text;
}

}  // namespace halfulp::cli
