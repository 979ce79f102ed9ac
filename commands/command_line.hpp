// The whole program as one function: `halfulp` calls it, and so does the Python package.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace halfulp::cli {

/// Runs `halfulp` with this command line, argv[0] being its name; returns the exit status (guard.hpp). Where input
/// comes from and output goes to: output.hpp.
int run_command_line(int argc, char** argv);

// The commands of `halfulp`, one file each. command_line.cpp lists them.

// Each function adds its subcommand to `app`. The subcommand's callback does the work and may set `status`, the exit
// status, which is 0 otherwise; what it throws guarded_main (guard.hpp) turns into one line and an exit status:
// std::invalid_argument and CLI::Error 2, BackendMissing and DeviceFailure 3, Interrupted 130, anything else 70. `app`
// and `status` outlive the callback; option variables live in a std::shared_ptr captured by the callback.

void add_formats_command(CLI::App& app, int& status);
void add_explain_command(CLI::App& app, int& status);
void add_eval_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
/// `command` is the whole command line, for the report's environment.
void add_run_command(CLI::App& app, int& status, std::string command);
void add_validate_command(CLI::App& app, int& status);
void add_diff_command(CLI::App& app, int& status);
void add_show_command(CLI::App& app);
void add_page_command(CLI::App& app);
void add_backends_command(CLI::App& app, int& status);
void add_verify_command(CLI::App& app, int& status);
void add_units_command(CLI::App& app, int& status);
void add_quantize_command(CLI::App& app, int& status);
void add_mma_command(CLI::App& app, int& status);
void add_probe_command(CLI::App& app, int& status);
void add_record_command(CLI::App& app, int& status);
void add_check_command(CLI::App& app, int& status);
void add_policies_command(CLI::App& app, int& status);
void add_profiles_command(CLI::App& app, int& status);
void add_diff_profiles_command(CLI::App& app, int& status);
void add_witness_command(CLI::App& app, int& status);
void add_completion_command(CLI::App& app, int& status);
void add_man_command(CLI::App& app, int& status);

// An experiment as an executable of its own.

/// main of the executable of one experiment: the options of `halfulp run`, nothing else.
int single_experiment_main(int argc, char** argv, const char* name);

}  // namespace halfulp::cli
