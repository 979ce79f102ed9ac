// The whole program as one function: `halfulp` calls it, and so does the Python package.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace halfulp::cli {

/// Runs `halfulp` with this command line and returns the exit status (guard.hpp). argv[0] is the program's name.
/// output.hpp says where input comes from and output goes.
int run_command_line(int argc, char** argv);

// The commands of `halfulp`, one file per command. command_line.cpp lists them.

// Each function adds its subcommand to `app`. The subcommand's callback does the work. It may set the exit status
// `status`, which is 0 otherwise. guarded_main (guard.hpp) turns what it throws into one line and an exit status:
// std::invalid_argument and CLI::Error 2, BackendMissing and DeviceFailure 3, Interrupted 130, anything else 70. `app`
// and `status` outlive the callback. Option variables live in a std::shared_ptr that the callback captures.

void add_formats_command(CLI::App& app, int& status);
void add_explain_command(CLI::App& app, int& status);
void add_calc_command(CLI::App& app, int& status);
void add_eval_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
/// `command` is the whole command line, for the report's environment.
void add_run_command(CLI::App& app, int& status, std::string command);
void add_validate_command(CLI::App& app, int& status);
/// `command` as for add_run_command.
void add_diff_command(CLI::App& app, int& status, std::string command);
void add_show_command(CLI::App& app);
void add_page_command(CLI::App& app);
void add_backends_command(CLI::App& app, int& status);
void add_verify_command(CLI::App& app, int& status);
void add_units_command(CLI::App& app, int& status);
/// `command` as for add_run_command, here and in the next two.
void add_quantize_command(CLI::App& app, int& status, std::string command);
void add_inspect_command(CLI::App& app, int& status, std::string command);
void add_choose_command(CLI::App& app, int& status, std::string command);
void add_sample_command(CLI::App& app, int& status);
void add_mma_command(CLI::App& app, int& status);
void add_probe_command(CLI::App& app, int& status);
void add_record_command(CLI::App& app, int& status);
void add_check_command(CLI::App& app, int& status);
void add_trials_command(CLI::App& app, int& status);
void add_trial_command(CLI::App& app, int& status);
void add_store_command(CLI::App& app, int& status);
void add_ledger_command(CLI::App& app, int& status);
/// `command` as for add_run_command.
void add_campaign_command(CLI::App& app, int& status, std::string command);
void add_policies_command(CLI::App& app, int& status);
/// `command` as for add_run_command.
void add_recommend_command(CLI::App& app, int& status, std::string command);
void add_profiles_command(CLI::App& app, int& status);
void add_diff_profiles_command(CLI::App& app, int& status);
void add_witness_command(CLI::App& app, int& status);
void add_completion_command(CLI::App& app, int& status);
void add_man_command(CLI::App& app, int& status);

// One experiment as a program of its own.

bool is_experiment(std::string_view name);

/// The main function of one experiment: it has the options of `halfulp run` and nothing else.
int single_experiment_main(int argc, char** argv, std::string_view name);

}  // namespace halfulp::cli
