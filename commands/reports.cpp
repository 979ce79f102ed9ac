// `halfulp show`: the tables of a report as text, for people.
#include <halfulp/commands/checkpoint.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/difference.hpp>
#include <halfulp/report/schema.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
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
  const VerdictCounts counts = verdicts_of(report["claims"]);
  std::string text;
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::differs, Verdict::skipped})
    if (counts[verdict])
      text += fmt::format("{}{} {}", text.empty() ? "claims: " : ", ", counts[verdict],
                          style.verdict(name_of(verdict)));
  return text.empty() ? "" : text + "\n";
}

std::string contents_text(const Json& report, const std::string& path, const Style& style) {
  std::vector<std::vector<std::string>> rows;
  const Json tables = tables_with_claims(report);
  for (const auto& [name, table] : tables.items())
    rows.push_back({name, fmt::format("{} row{}", table["rows"].size(), table["rows"].size() == 1 ? "" : "s"),
                    clean(table["title"].get<std::string>())});
  const Json finding = report.value("finding", Json());
  return style.painted(clean(report["title"].get<std::string>()), Paint::heading) + "\n" +
         (finding.is_string() ? wrapped(clean(finding.get<std::string>()), 2) : "") + "\n" + aligned(rows, 2) + "\n" +
         claims_text(report, style) + fmt::format("halfulp show {} TABLE prints one.\n", path);
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
  if (equals == 0 || equals == std::string::npos)
    throw std::invalid_argument(fmt::format("--where {}: accepted: COLUMN=VALUE", shown(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void show(const Arguments& arguments) {
  const auto& [path, name, columns, where, csv] = arguments;
  const Json report = read_report(path);
  if (!name) {
    if (csv || !columns.empty() || !where.empty())
      throw std::invalid_argument("show: --columns, --where and --csv need a TABLE");
    return write_output(contents_text(report, path, Style::of_output()));
  }
  const Json tables = tables_with_claims(report);
  std::vector<std::string> names;
  for (const auto& [table, unused] : tables.items()) names.push_back(table);
  if (!tables.contains(*name)) throw std::invalid_argument(unknown_name("table", *name, std::move(names)));
  TablePart part{columns, {}};
  for (const std::string& text : where) part.where.push_back(condition(text));
  const bool brief = *name == "claims" && !report["results"].contains(*name) && !csv && columns.empty();
  if (brief)
    part.columns = {"verdict", "id", "expected", "measured", "tolerance", "independence"};  // sentences have no room
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
  command->add_option("TABLE", arguments->table,
                      "a table of its results, or claims; without it, the tables are listed");
  command->add_option("--columns", arguments->columns, "columns to show, in this order (default: all)")
      ->type_name("NAME[,NAME...]")
      ->delimiter(',');
  command->add_option("--where", arguments->where, "a column and the value of the rows to show; may be repeated")
      ->type_name("COLUMN=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--csv", arguments->csv, "prints comma-separated values, with all digits of the numbers");
  command->callback([arguments] { show(*arguments); });
}

namespace {

constexpr std::size_t shown_errors = 10;

/// Says what one report is; returns the exit status for it.
int validate(const std::string& path) {
  std::vector<std::string> errors;
  try {
    errors = report_errors(read_json(path));
  } catch (const std::invalid_argument& error) {  // the other reports are judged all the same
    print_error(error.what());
    return exit_status::bad_input;
  }
  std::string text = errors.empty() ? path + ": valid\n" : "";
  for (std::size_t i = 0; i < errors.size() && i < shown_errors; ++i)
    text += fmt::format("{}: {}\n", path, clean(errors[i]));
  if (errors.size() > shown_errors) text += fmt::format("{}: {} more errors\n", path, errors.size() - shown_errors);
  write_output(text);
  return errors.empty() ? exit_status::done : exit_status::failed;
}

}  // namespace

void add_validate_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("validate", "check reports against their schema");
  const auto paths = std::make_shared<std::vector<std::string>>();
  const auto schema = std::make_shared<bool>(false);
  command->add_option("report", *paths, "reports; - is standard input")->type_name("REPORT...");
  command->add_flag("--schema", *schema, "print the schema itself");
  command->callback([paths, schema, &status] {
    if (*schema && !paths->empty())
      throw std::invalid_argument("validate: --schema prints the schema alone; accepted: no report with it");
    if (*schema) write_output(report_schema());
    else if (paths->empty())
      throw std::invalid_argument("validate: a report is missing; write halfulp validate REPORT...");
    for (const std::string& path : *paths) status = std::max(status, validate(path));
  });
}

void add_diff_command(CLI::App& app, int& status, std::string line) {
  CLI::App* command = app.add_subcommand("diff", "where two reports, or two checkpoints, differ");
  struct Options {
    std::string first, second;
    CheckpointArguments checkpoints;
  };
  const auto options = std::make_shared<Options>();
  CheckpointArguments& checkpoints = options->checkpoints;
  checkpoints.command = std::move(line);
  command
      ->add_option("FIRST", options->first, "a report; or a new checkpoint: .safetensors, an index of shards, a folder")
      ->required();
  command
      ->add_option("SECOND", options->second,
                   "a report of the same experiment; or the checkpoint that the new one was made of")
      ->required();
  add_setting_option(*command, checkpoints, "of checkpoints: a parameter of the report; may be repeated");
  const std::vector<CLI::Option*> of_checkpoints{
      command->get_option("--set"),
      checkpoints.add(*command, "--formats", "formats", "of checkpoints: casts that may explain what differs")
          ->type_name("F[,F]"),
      checkpoints.add(*command, "--layers", "tensors", "of checkpoints: tensors whose names match (default: *)")
          ->type_name("GLOB[,GLOB]"),
      command
          ->add_option("--out", checkpoints.out,
                       "of checkpoints: the report's file or folder, or - for standard output (default: reports/)")
          ->type_name("FILE|DIR|-"),
      add_number_option(*command, "--threads", checkpoints.threads, 1, 1024,
                        "of checkpoints: threads (default: one per core)"),
      command->add_flag("--quiet", checkpoints.quiet, "of checkpoints: no progress bar and no summary")};
  command->footer(
      "Of two reports it compares results: code words first, then numbers. Of two checkpoints it makes a report: which "
      "tensors differ, by how many ulps, and which cast of one is the other. The exit status is 1 if they differ.");
  command->callback([options, of_checkpoints, &status] {
    if (options->first == "-" && options->second == "-")
      throw std::invalid_argument(
          "FIRST and SECOND are both -, and there is one standard input; accepted: a file for one of them");
    const auto is_one = [](const std::string& path) { return names_checkpoint(path) || path.ends_with(".npy"); };
    if (is_one(options->first) || is_one(options->second)) {
      for (const std::string& other : {options->first, options->second})
        if (!is_one(other) && other.ends_with(".json"))
          throw std::invalid_argument(fmt::format(
              "{} would be a report, and the other is a checkpoint; accepted: two of a kind", shown(other)));
      options->checkpoints.parameters["checkpoint"] = {"FIRST", options->first};
      status = compare_checkpoints(options->checkpoints, options->second);
      return;
    }
    for (const CLI::Option* option : of_checkpoints)
      if (option->count())
        throw std::invalid_argument(option->get_name() + " is for checkpoints, and " + shown(options->first) +
                                    " is none");
    const ReportDiff diff = diff_reports(read_report(options->first), read_report(options->second));
    write_output(diff.text);
    status = diff.results_differ ? exit_status::failed : exit_status::done;
  });
}

}  // namespace halfulp::cli
