#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/guard.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/report_diff.hpp>
#include <halfulp/experiments/report/schema.hpp>

#include <memory>
#include <stdexcept>
#include <string>

namespace halfulp::cli {
namespace {

Json valid_report(const std::string& path) {
  Json report = read_json(path);
  const auto errors = report_errors(report);
  if (!errors.empty()) throw std::invalid_argument(path + " is not a valid report: " + errors.front());
  return report;
}

}  // namespace

void add_diff_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("diff", "where the results of two reports differ: code words first, then numbers");
  struct Options {
    std::string first, second;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("first", options->first, "a report")->required()->type_name("REPORT");
  command->add_option("second", options->second, "a report of the same experiment")->required()->type_name("REPORT");
  command->callback([options, &status] {
    const ReportDiff diff = diff_reports(valid_report(options->first), valid_report(options->second));
    write_output(diff.text);
    status = diff.results_differ ? exit_status::failed : exit_status::done;
  });
}

}  // namespace halfulp::cli
