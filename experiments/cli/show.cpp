// `halfulp show`: the tables of a report as text, for people.
#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/cli/table_text.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/schema.hpp>
#include <halfulp/formats/nearest.hpp>

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

std::string contents_text(const Json& report, const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, table] : report["results"].items())
    rows.push_back({name, fmt::format("{} rows", table["rows"].size()), table["title"].get<std::string>()});
  return report["title"].get<std::string>() + "\n\n" + aligned(rows, 2) + fmt::format("\nhalfulp show {} TABLE prints one.\n", path);
}

void show(const std::string& path, const std::optional<std::string>& name) {
  const Json report = read_json(path);
  if (const auto errors = report_errors(report); !errors.empty())
    throw std::invalid_argument(fmt::format("{}: not a valid report: {}", path, errors.front()));
  if (!name) return write_output(contents_text(report, path));
  std::vector<std::string> names;
  for (const auto& [table, unused] : report["results"].items()) names.push_back(table);
  if (!report["results"].contains(*name)) throw std::invalid_argument(unknown_name("table", *name, std::move(names)));
  write_output(table_text(report["results"][*name]));
}

}  // namespace

void add_show_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("show", "a report's tables as text");
  const auto path = std::make_shared<std::string>();
  const auto table = std::make_shared<std::optional<std::string>>();
  command->add_option("REPORT", *path, "a report; - is standard input")->required();
  command->add_option("TABLE", *table, "a table of its results; without, they are listed");
  command->footer("Example: halfulp show reports/underflow.json best_scale");
  command->callback([path, table] { show(*path, *table); });
}

}  // namespace halfulp::cli
