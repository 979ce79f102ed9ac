// halfulp recommend: the experiment of that name, with its main parameters as options.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

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

int recommend_command(RecommendArguments options) {
  // In front of --set, which may still change them.
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
  if (!options.policy) return run_experiments({&find_experiment("recommendation")}, options);
  if (options.tensors) throw std::invalid_argument("--policy: no policy comes from --tensors; accepted: one of them");
  if (options.networks && options.networks->find(',') != std::string::npos)
    throw std::invalid_argument(
        fmt::format("--policy: {} have a policy each; accepted: one network", *options.networks));
  check_writable(*options.policy);
  return run_experiments({&find_experiment("recommendation")}, options,
                         [&](const Report& report) { write_file(*options.policy, recommended_policy(report)); });
}

}  // namespace

void add_recommend_command(CLI::App& app, int& status, std::string command) {
  const auto options = std::make_shared<RecommendArguments>();
  options->command = std::move(command);
  CLI::App* recommend = app.add_subcommand("recommend", "the narrowest precision policy that keeps a budget");
  recommend->add_option("--network", options->networks, "what is trained: mlp, cnn, transformer, lstm (default: mlp)")
      ->type_name("N[,N]");
  recommend
      ->add_option("--tensors", options->tensors,
                   "instead of a network: a folder of .npy files, each of which gets a format")
      ->type_name("FOLDER");
  recommend
      ->add_option("--budget", options->budget,
                   "what may be lost: a share of the test examples such as 0.01 (of tensors: a relative error); or the "
                   "bytes that there are, such as 400kB (default: 0.01)")
      ->type_name("LOSS|BYTES");
  recommend->add_option("--formats", options->formats, "formats besides fp32 (default: bf16,e4m3,e5m2,fp8-1x128)")
      ->type_name("F[,F]");
  recommend->add_option("--against", options->policies, "policies to compare with (default: O1,pure-bf16)")
      ->type_name("P[,P]");
  recommend->add_option("--policy", options->policy, "the recommended policy, as a file that --set policies=FILE reads")
      ->type_name("FILE");
  add_run_options(*recommend, *options);
  recommend->footer(
      "Each tensor is rounded alone to each format, and the gradient's error is measured. The plan that saves the "
      "most\n"
      "bytes for its error is trained; if it loses too much, one with half the error is. halfulp show REPORT choices\n"
      "says what became of each tensor, and why.");
  recommend->callback([options, &status] { status = recommend_command(*options); });
}

}  // namespace halfulp::cli
