// `halfulp`: formats, arithmetic, experiments and reports on the command line. Links to it with an experiment's name
// (`underflow`, or `halfulp-underflow` where it is installed) run that experiment.
#include <halfulp/commands/command_line.hpp>

#include <string_view>

int main(int argc, char** argv) {
  std::string_view called = argc > 0 ? argv[0] : "";
  called.remove_prefix(called.rfind('/') + 1);  // npos + 1 is 0
  if (called.starts_with("halfulp-")) called.remove_prefix(8);
  if (halfulp::cli::is_experiment(called)) return halfulp::cli::single_experiment_main(argc, argv, called);
  return halfulp::cli::run_command_line(argc, argv);
}
