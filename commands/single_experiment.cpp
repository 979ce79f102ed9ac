#include <halfulp/commands/command_line.hpp>

#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/run.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace halfulp::cli {

bool is_experiment(std::string_view name) {
  return std::ranges::any_of(experiments(), [&](const Experiment& experiment) { return experiment.name == name; });
}

int single_experiment_main(int argc, char** argv, std::string_view name) {
  const Experiment& experiment = find_experiment(name);
  RunArguments arguments;
  arguments.command = command_text(argc, argv);
  return guarded_main(argc, argv, std::string(experiment.question), [&](CLI::App& app, int& status) {
    add_run_options(app, arguments);
    add_store_option(app, arguments);
    app.footer([&] { return "\n" + experiment_help(experiment); });
    app.callback([&] { status = run_experiments({&experiment}, arguments); });
  });
}

}  // namespace halfulp::cli
