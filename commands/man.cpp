// `halfulp man`: manual pages, made of what --help shows.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/manual.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>

namespace halfulp::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// The page halfulp(1), which refers to the pages of commands and experiments.
std::string main_page(const CLI::App& app) {
  std::vector<std::string> others;
  for (const CLI::App* command : commands_of(app)) others.push_back("halfulp-" + command->get_name());
  for (const Experiment& experiment : experiments()) others.push_back("halfulp-" + std::string(experiment.name));
  return man_text(manual_of(app, "halfulp"), {}, others);
}

std::string command_page(const CLI::App& command) {
  return man_text(manual_of(command, "halfulp " + command.get_name()), {}, {"halfulp"});
}

/// The page of an experiment's executable as it is installed.
std::string experiment_page(const Experiment& experiment) {
  CLI::App app(std::string(experiment.question), "halfulp-" + std::string(experiment.name));
  app.set_help_flag("-h,--help", "the help of this command");
  RunArguments arguments;
  add_run_options(app, arguments);
  add_store_option(app, arguments);
  return man_text(manual_of(app, app.get_name()), experiment.parameters(), {"halfulp", "halfulp-run"});
}

/// Every page by its name without "halfulp-"; "" is halfulp itself.
std::vector<std::pair<std::string, std::string>> pages_of(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> pages{{"", main_page(app)}};
  for (const CLI::App* command : commands_of(app)) pages.emplace_back(command->get_name(), command_page(*command));
  for (const Experiment& experiment : experiments()) pages.emplace_back(experiment.name, experiment_page(experiment));
  return pages;
}

void man_command(const CLI::App& app, const std::string& name, const std::optional<std::string>& out) {
  const auto pages = pages_of(app);
  if (out) {
    if (!name.empty()) throw std::invalid_argument("man --out writes every page; accepted: --out without a NAME");
    std::error_code error;
    std::filesystem::create_directory(*out, error);
    if (error || !std::filesystem::is_directory(*out))
      throw std::invalid_argument("--out: cannot make the folder '" + shown(*out) +
                                  "': " + (error ? error.message() : std::string("no folder")));
    std::vector<FileText> files;
    for (const auto& [page, text] : pages)
      files.emplace_back(std::filesystem::path(*out) / ("halfulp" + (page.empty() ? "" : "-" + page) + ".1"), text);
    return write_files(files);
  }
  std::vector<std::string> names;
  for (const auto& [page, text] : pages) {
    if (page == name) return write_output(text);
    if (!page.empty()) names.push_back(page);
  }
  throw std::invalid_argument(unknown_name("manual page", name, std::move(names)));
}

}  // namespace

void add_man_command(CLI::App& app, int&) {
  struct Options {
    std::string name;
    std::optional<std::string> out;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("man", "manual pages, as man(7) source");
  add_text_option(*command, "NAME", options->name, "a command or an experiment; without it, halfulp itself",
                  "a command or an experiment");
  command->add_option("--out", options->out, "every page into this folder: halfulp.1, halfulp-explain.1, ...")
      ->type_name("DIR");
  command->footer("To read one: halfulp man explain | man -l -");
  command->callback([&app, options] { man_command(app, options->name, options->out); });
}

}  // namespace halfulp::cli
