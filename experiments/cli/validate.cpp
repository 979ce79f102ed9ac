#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/guard.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/schema.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

constexpr std::size_t shown_errors = 10;

/// The verdict on one report; whether it is valid.
bool validate(const std::string& path) {
  const std::vector<std::string> errors = report_errors(read_json(path));
  std::string text = errors.empty() ? path + ": valid\n" : "";
  for (std::size_t i = 0; i < errors.size() && i < shown_errors; ++i) text += fmt::format("{}: {}\n", path, errors[i]);
  if (errors.size() > shown_errors) text += fmt::format("{}: {} more errors\n", path, errors.size() - shown_errors);
  write_output(text);
  return errors.empty();
}

}  // namespace

void add_validate_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("validate", "check reports against their schema");
  const auto paths = std::make_shared<std::vector<std::string>>();
  const auto schema = std::make_shared<bool>(false);
  command->add_option("report", *paths, "reports; - is standard input")->type_name("REPORT...");
  command->add_flag("--schema", *schema, "print the schema itself");
  command->callback([paths, schema, &status] {
    if (*schema) write_output(report_schema());
    else if (paths->empty()) throw std::invalid_argument("validate: a report is missing; write halfulp validate REPORT...");
    for (const std::string& path : *paths)
      if (!validate(path)) status = exit_status::failed;
  });
}

}  // namespace halfulp::cli
