#include <halfulp/commands/command_line.hpp>

#include <halfulp/commands/guard.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {
namespace {

/// Puts the commands added since the last call into one group, named after what people do with them.
void group(CLI::App& app, const std::string& title, std::size_t& grouped) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (; grouped < commands.size(); ++grouped) commands[grouped]->group(title);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  // `halfulp help explain` is `halfulp explain --help`, and `halfulp help` is `halfulp --help`.
  char help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back(help);
  }
  // Text editors make one dash of two, or a longer one of one.
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    for (const std::string_view dash : {"\u2013", "\u2014", "\u2212"})
      if (word.size() > dash.size() && word.starts_with(dash) &&
          (word.substr(dash.size()).starts_with(dash) ||  // -sqrt(2) may begin with a minus sign
           (dash != "\u2212" && std::isalpha(static_cast<unsigned char>(word[dash.size()]))))) {
        std::string name(word);
        while (name.starts_with(dash)) name.erase(0, dash.size());
        print_error("'" + shown(word) + "' begins with a typographic dash; accepted: --" + shown(name));
        return exit_status::bad_input;
      }
  }
  return guarded_main(static_cast<int>(words.size()), words.data(),
                      "halfulp: a laboratory for low-precision floating point", [&](CLI::App& app, int& status) {
                        app.require_subcommand(1);
                        std::size_t grouped = 0;
                        add_formats_command(app, status);
                        add_explain_command(app, status);
                        add_calc_command(app, status);
                        add_eval_command(app, status);
                        add_quantize_command(app, status, command_text(argc, argv));
                        add_inspect_command(app, status, command_text(argc, argv));
                        add_choose_command(app, status, command_text(argc, argv));
                        add_sample_command(app, status);
                        group(app, "Numbers and tensors", grouped);
                        add_list_command(app, status);
                        add_run_command(app, status, command_text(argc, argv));
                        add_trials_command(app, status);
                        add_trial_command(app, status);
                        add_store_command(app, status);
                        add_campaign_command(app, status, command_text(argc, argv));
                        add_policies_command(app, status);
                        add_recommend_command(app, status, command_text(argc, argv));
                        group(app, "Experiments", grouped);
                        add_show_command(app);
                        add_page_command(app);
                        add_diff_command(app, status, command_text(argc, argv));
                        add_validate_command(app, status);
                        group(app, "Reports", grouped);
                        add_units_command(app, status);
                        add_mma_command(app, status);
                        add_probe_command(app, status);
                        group(app, "Matrix units", grouped);
                        add_profiles_command(app, status);
                        add_diff_profiles_command(app, status);
                        add_witness_command(app, status);
                        group(app, "What differs where", grouped);
                        add_backends_command(app, status);
                        add_check_command(app, status);
                        add_verify_command(app, status);
                        add_ledger_command(app, status);
                        add_record_command(app, status);
                        group(app, "Hardware and proof", grouped);
                        add_completion_command(app, status);
                        add_man_command(app, status);
                        group(app, "Shell", grouped);
                      });
}

}  // namespace halfulp::cli
