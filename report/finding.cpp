#include <halfulp/report/finding.hpp>

#include <halfulp/report/experiment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

namespace halfulp {
namespace {

const Json nothing;

const TableRow* best(const std::vector<TableRow>& rows, std::string_view column, double sign) {
  const TableRow* found = nullptr;
  for (const TableRow& row : rows) {
    const double value = sign * row.number(column);
    if (!std::isnan(value) && (!found || value > sign * found->number(column))) found = &row;
  }
  return found;
}

}  // namespace

const Json& TableRow::operator[](std::string_view column) const {
  for (std::size_t i = 0; i < columns_->size() && i < cells_->size(); ++i)
    if ((*columns_)[i].value("name", "") == column) return (*cells_)[i];
  return nothing;
}

double TableRow::number(std::string_view column) const {
  const Json& cell = (*this)[column];
  return number_of(cell.is_object() && cell.contains("value") ? cell.at("value") : cell)
      .value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string TableRow::whole(std::string_view column) const { return fmt::format("{:.0f}", number(column)); }

std::string TableRow::text(std::string_view column) const {
  const Json& cell = (*this)[column];
  return cell.is_string() ? cell.get<std::string>() : std::string();
}

std::vector<TableRow> ReportTables::rows(std::string_view table, Conditions conditions) const {
  std::vector<TableRow> found;
  const auto at = results_->find(table);
  if (at == results_->end()) return found;
  for (const Json& cells : at->at("rows")) {
    const TableRow row(at->at("columns"), cells);
    if (std::all_of(conditions.begin(), conditions.end(),
                    [&](const auto& condition) { return row[condition.first] == condition.second; }))
      found.push_back(row);
  }
  return found;
}

const TableRow* largest(const std::vector<TableRow>& rows, std::string_view column) { return best(rows, column, 1); }
const TableRow* smallest(const std::vector<TableRow>& rows, std::string_view column) { return best(rows, column, -1); }

std::string in_words(double value, int digits) {
  if (value == 0) return "0";  // of either sign
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const double magnitude = std::abs(value);
  if (magnitude >= 1e6 || magnitude < 1e-4) {  // "1e-5", not "1e-05"
    std::string text = fmt::format("{:.{}g}", value, digits);
    if (const std::size_t e = text.find("e-0"); e != std::string::npos) text.erase(e + 2, 1);
    else if (const std::size_t plus = text.find("e+"); plus != std::string::npos)
      text.erase(plus + 1, text[plus + 2] == '0' ? 2 : 1);
    return text;
  }
  const int before = static_cast<int>(std::floor(std::log10(magnitude))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, digits - before));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string percent(double share) {
  const double per_cent = 100 * share;
  // Near all or nothing as many digits as tell it apart.
  for (int digits = 2; digits < 8; ++digits) {
    const std::string text = in_words(per_cent, digits);
    if ((text != "100" || share == 1) && (text != "0" || share == 0)) return text + " %";
  }
  return in_words(per_cent, 8) + " %";
}

std::string finding_of(const Experiment& experiment, const Json& results) {
  static const std::regex no_number("\\b(inf|nan)\\b");  // as in_words and whole write them
  const std::string sentence = experiment.finding ? experiment.finding(ReportTables(results)) : std::string();
  return std::regex_search(sentence, no_number) ? std::string() : sentence;
}

}  // namespace halfulp
