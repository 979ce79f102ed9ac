#include <halfulp/experiments/cli/command_line.hpp>

#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/guard.hpp>

namespace halfulp::cli {

int run_command_line(int argc, char** argv) {
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
    add_page_command(app);
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

}  // namespace halfulp::cli
