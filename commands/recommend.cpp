// halfulp recommend: the experiment of that name, with its main parameters as options.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

namespace fs = std::filesystem;

struct RecommendArguments : RunArguments {
  std::optional<std::string> networks, tensors, budget, formats, policies, policy;
};

/// The policy of the only network there is.
std::string recommended_policy(const Report& report) {
  const Json results = report.to_json()["results"];
  if (!results.contains("recommended") || results["recommended"]["rows"].empty())
    throw std::runtime_error("--policy: no network was trained, so that there is no policy to write");
  return pretty(Json::parse(results["recommended"]["rows"][0][1].get<std::string>()));
}

/// The file of a policy is found by its ending.
void check_policy_file(const std::string& name) {
  if (!name.ends_with(".json"))
    throw std::invalid_argument(
        fmt::format("--policy: {}; accepted: a file that ends in .json, as --set policies=FILE reads it", shown(name)));
  check_writable(name);
}

/// Of the table `tensors` what is recommended.
std::string chosen_formats(Json table, bool all) {
  Json rows = Json::array();
  for (const Json& row : table["rows"])
    if (row[6] == true) rows.push_back(row);
  table["rows"] = std::move(rows);
  return headline_text(table, {"tensors", {"tensor", "elements", "format", "bytes", "relative_error"}},
                       all ? std::numeric_limits<std::size_t>::max() : headline_rows, "", Style::of_output()) +
         "\n";
}

/// What the recommended policy stores where.
std::string choices(const Json& table, const RecommendArguments& options) {
  if (table["rows"].empty()) return {};
  std::string text = headline_text(table, {"choices", {"layer", "operator", "part", "format", "bytes", "error"}},
                                   options.verbose ? std::numeric_limits<std::size_t>::max() : headline_rows,
                                   "halfulp show REPORT choices says why", Style::of_output()) +
                     "\n";
  if (options.policy) text += fmt::format("policy: {}\n\n", *options.policy);
  return text;
}

int recommend_command(RecommendArguments options) {
  std::vector<std::string> settings;
  const auto set = [&](const char* name, const std::optional<std::string>& value) {
    if (value) settings.push_back(fmt::format("{}={}", name, *value));
  };
  set("networks", options.networks);
  set("tensors", options.tensors);
  set("budget", options.budget);
  set("formats", options.formats);
  set("policies", options.policies);
  options.settings.insert(options.settings.begin(), settings.begin(), settings.end());
  if (options.tensors && options.tensors->empty())
    throw std::invalid_argument("--tensors: a folder is missing; accepted: a folder of .npy files");
  if (options.tensors)
    for (const auto& [option, value] :
         {std::pair("--network", options.networks), std::pair("--against", options.policies)})
      if (value) throw std::invalid_argument(std::string(option) + ": --tensors trains nothing; accepted: one of them");
  RunHooks hooks;
  if (options.policy) {
    check_policy_file(*options.policy);
    hooks.others = {{"--policy", *options.policy}};
    hooks.check = [&](const Config& config, const std::string& report) {
      if (!config.text("tensors").empty())
        throw std::invalid_argument("--policy: no policy comes from --tensors; accepted: one of them");
      if (const auto networks = config.choices("networks"); networks.size() > 1)
        throw std::invalid_argument(
            fmt::format("--policy: {} have a policy each; accepted: one network", fmt::join(networks, ",")));
      if (fs::weakly_canonical(*options.policy) == fs::weakly_canonical(report))
        throw std::invalid_argument(
            fmt::format("--policy: {} is the report's file; accepted: another", *options.policy));
    };
    hooks.with = [&](const Report& report) {
      return std::vector<FileText>{{*options.policy, recommended_policy(report)}};
    };
  }
  hooks.then = [&](const Report& report) {
    if (options.quiet || options.out == "-") return;
    const bool trained = report.config().at("tensors") == "";  // then a table of that name is the microscope's
    if (const Table* const table = report.find_table(trained ? "choices" : "tensors"))
      write_output(trained ? choices(table->to_json(), options) : chosen_formats(table->to_json(), options.verbose));
  };
  return run_experiments({&find_experiment("recommendation")}, options, hooks);
}

}  // namespace

void add_recommend_command(CLI::App& app, int& status, std::string command) {
  const auto options = std::make_shared<RecommendArguments>();
  options->command = std::move(command);
  CLI::App* recommend = app.add_subcommand("recommend", "the narrowest precision policy that keeps a budget");
  recommend
      ->add_option("--network", options->networks,
                   "the network that is trained: mlp, cnn, transformer or lstm (default: mlp)")
      ->type_name("N[,N]");
  recommend
      ->add_option("--tensors", options->tensors,
                   "a folder of .npy files instead of a network; each file gets a format")
      ->type_name("FOLDER");
  recommend
      ->add_option("--budget", options->budget,
                   "how much accuracy may be lost, such as 0.01, which is one point (with --tensors: a relative "
                   "error); or a number of bytes, such as 400kB (default: 0.01)")
      ->type_name("LOSS|BYTES");
  recommend->add_option("--formats", options->formats, "formats besides fp32 (default: bf16,e4m3,e5m2,fp8-1x128)")
      ->type_name("F[,F]");
  recommend->add_option("--against", options->policies, "policies to compare with (default: O1,pure-bf16)")
      ->type_name("P[,P]");
  recommend->add_option("--policy", options->policy, "the recommended policy, as a file that --set policies=FILE reads")
      ->type_name("FILE");
  add_run_options(*recommend, *options);
  add_store_option(*recommend, *options);
  recommend->footer(
      "Each tensor is rounded alone to each format, and the gradient's error is\n"
      "measured. The plan that saves the most bytes for its error is trained; if it\n"
      "loses too much, one with half the error is. halfulp show REPORT choices says\n"
      "what became of each tensor, and why.");
  recommend->callback([options, &status] { status = recommend_command(*options); });
}

}  // namespace halfulp::cli
