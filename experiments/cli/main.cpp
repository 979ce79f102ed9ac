// `halfulp`: formats, arithmetic, experiments and reports on the command line.
#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/guard.hpp>

int main(int argc, char** argv) {
  using namespace halfulp::cli;
  return guarded_main(argc, argv, "halfulp: a laboratory for low-precision floating point", [&](CLI::App& app, int& status) {
    app.require_subcommand(1);
    add_formats_command(app, status);
    add_explain_command(app, status);
    add_eval_command(app, status);
    add_quantize_command(app, status);
    add_list_command(app, status);
    add_run_command(app, status, command_text(argc, argv));
    add_validate_command(app, status);
    add_diff_command(app, status);
    add_show_command(app);
    add_backends_command(app, status);
    add_verify_command(app, status);
    add_units_command(app, status);
    add_mma_command(app, status);
    add_probe_command(app, status);
    add_record_command(app, status);
    add_check_command(app, status);
    add_policies_command(app, status);
    add_profiles_command(app, status);
    add_diff_profiles_command(app, status);
    add_witness_command(app, status);
  });
}
