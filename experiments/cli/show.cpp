// `halfulp show`: the tables of a report as text, for people.
#include <halfulp/experiments/cli/claims_table.hpp>
#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/cli/table_text.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/schema.hpp>
#include <halfulp/formats/nearest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

/// "claims: 15 pass, 1 differs".
std::string claims_text(const Json& report, const Style& style) {
  std::string text;
  for (const char* verdict : {"pass", "fail", "differs", "skipped"}) {
    const auto count = std::count_if(report["claims"].begin(), report["claims"].end(), [&](const Json& claim) { return claim["verdict"] == verdict; });
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "claims: " : ", ", count, style.verdict(verdict));
  }
  return text.empty() ? "" : text + "\n";
}

std::string contents_text(const Json& report, const std::string& path, const Style& style) {
  std::vector<std::vector<std::string>> rows;
  const Json tables = tables_with_claims(report);
  for (const auto& [name, table] : tables.items()) rows.push_back({name, fmt::format("{} rows", table["rows"].size()), table["title"].get<std::string>()});
  return style.painted(report["title"].get<std::string>(), Paint::heading) + "\n\n" + aligned(rows, 2) + "\n" + claims_text(report, style) +
         fmt::format("halfulp show {} TABLE prints one.\n", path);
}

struct Arguments {
  std::string path;
  std::optional<std::string> table;
  std::vector<std::string> columns, where;
  bool csv = false;
};

/// "policy=fp32" as a column and what its cell reads.
std::pair<std::string, std::string> condition(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) throw std::invalid_argument(fmt::format("--where {}: accepted: COLUMN=VALUE", shown(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void show(const Arguments& arguments) {
  const auto& [path, name, columns, where, csv] = arguments;
  const Json report = read_json(path);
  if (const auto errors = report_errors(report); !errors.empty())
    throw std::invalid_argument(fmt::format("{}: not a valid report: {}", path, errors.front()));
  if (!name) {
    if (csv || !columns.empty() || !where.empty()) throw std::invalid_argument("show: --columns, --where and --csv want a TABLE");
    return write_output(contents_text(report, path, Style::of_output()));
  }
  const Json tables = tables_with_claims(report);
  std::vector<std::string> names;
  for (const auto& [table, unused] : tables.items()) names.push_back(table);
  if (!tables.contains(*name)) throw std::invalid_argument(unknown_name("table", *name, std::move(names)));
  TablePart part{columns, {}};
  for (const std::string& text : where) part.where.push_back(condition(text));
  const bool brief = *name == "claims" && !report["results"].contains(*name) && !csv && columns.empty();
  if (brief) part.columns = {"verdict", "id", "expected", "measured", "tolerance", "independence"};  // sentences have no room
  Json table = part_of(tables[*name], part);
  if (brief)
    for (Json& row : table["rows"])
      for (std::size_t i = 2; i < row.size(); ++i)
        if (row[i].is_string()) row[i] = cut(row[i].get<std::string>(), 32);
  write_output(csv ? table_csv(table) : table_text(table, Style::of_output()));
}

}  // namespace

void add_show_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("show", "a report's tables as text");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("REPORT", arguments->path, "a report; - is standard input")->required();
  command->add_option("TABLE", arguments->table, "a table of its results, or claims; without, they are listed");
  command->add_option("--columns", arguments->columns, "these columns alone, in this order")->type_name("NAME[,NAME...]")->delimiter(',');
  command->add_option("--where", arguments->where, "rows alone whose column reads so; may be repeated")->type_name("COLUMN=VALUE")->expected(1)->take_all()->allow_extra_args(false);
  command->add_flag("--csv", arguments->csv, "comma-separated values, numbers in full");
  command->callback([arguments] { show(*arguments); });
}

}  // namespace halfulp::cli
