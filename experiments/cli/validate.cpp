#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/guard.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/schema.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

constexpr std::size_t shown_errors = 10;

/// Says what one report is; the exit status it alone would have.
int validate(const std::string& path) {
  std::vector<std::string> errors;
  try {
    errors = report_errors(read_json(path));
  } catch (const std::invalid_argument& error) {  // the other reports are judged all the same
    print_error(error.what());
    return exit_status::bad_input;
  }
  std::string text = errors.empty() ? path + ": valid\n" : "";
  for (std::size_t i = 0; i < errors.size() && i < shown_errors; ++i) text += fmt::format("{}: {}\n", path, errors[i]);
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
    if (*schema) write_output(report_schema());
    else if (paths->empty()) throw std::invalid_argument("validate: a report is missing; write halfulp validate REPORT...");
    for (const std::string& path : *paths) status = std::max(status, validate(path));
  });
}

}  // namespace halfulp::cli
