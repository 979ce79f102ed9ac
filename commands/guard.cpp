#include <halfulp/commands/guard.hpp>

#include <halfulp/commands/build_text.hpp>
#include <halfulp/commands/manual.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/hardware/device.hpp>

#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace halfulp::cli {
namespace {

int report_error(std::string message, int status) {
  print_error(std::move(message));
  return status;
}

/// The innermost subcommand on the command line.
const CLI::App& selected(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : selected(*subcommands.front());
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// What an option takes, in a few words: its description as far as the first semicolon.
std::string accepted_by(const CLI::Option& option) {
  const std::string& text = option.get_description();
  return text.substr(0, text.find(';'));
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

/// Flags take no value: CLI11 would accept --json=3.
void make_flags_strict(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](CLI::Option*) { return true; }))
    if (is_flag(*option)) option->disable_flag_override();
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) make_flags_strict(*command);
}

/// Explains an option with too few values, too many, or a value where it takes none. CLI11's text begins with the
/// option's name, for flags without dashes.
std::string explained_mismatch(const CLI::App& command, const CLI::ArgumentMismatch& error) {
  const auto bare = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  const std::string_view text = bare(error.what()), first = text.substr(0, text.find_first_of(": "));
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (bare(name) != first) continue;
    if (is_flag(*option)) return name + " takes no value";
    if (option->count() > 1) return name + " is there " + std::to_string(option->count()) + " times; accepted: once";
    return name + ": a value is missing; accepted: " + accepted_by(*option);
  }
  return error.what();
}

/// Says what is missing, or suggests the nearest spelling of an unknown word.
std::string explained(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = selected(app);
  const std::string help = "see " + app.get_name() + (&command == &app ? "" : " " + command.get_name()) + " --help";
  // A word before the command: `halfulp fromats explain`.
  for (const std::string& word : app.remaining())
    if (&command != &app && !word.empty() && word[0] != '-') return unknown_name("command", word, command_names(app));
  if (const auto* mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error))
    return explained_mismatch(command, *mismatch);

  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty() && unknown.front() != "--") {
    const std::string& word = unknown.front();
    if (word.size() > 1 && word[0] == '-')
      return unknown_name("option", word.substr(0, word.find('=')), option_names(command)) +
             (command.get_option_no_throw("--set") ? "; --set sets parameters of an experiment: --set KEY=VALUE" : "");
    if (!command_names(command).empty()) return unknown_name("command", word, command_names(command));
    const auto taken = command.get_options([](const CLI::Option* option) { return option->get_positional(); }).size();
    return "unexpected argument '" + word + "'; accepted: " +
           (taken == 0   ? "options alone"
            : taken == 1 ? "one argument"
                         : std::to_string(taken) + " arguments") +
           "; " + help;
  }
  if (&command == &app && !command_names(app).empty())
    return "a command is missing; begin with: " + app.get_name() + " calc '0.1 + 0.2', " + app.get_name() +
           " run swamping, " + app.get_name() + " list; " + help;
  for (const CLI::Option* option : command.get_options())
    if (option->get_required() && option->count() == 0) {
      std::string name = option->get_positional() ? argument_name(*option) : option->get_name();
      if (name.ends_with("...")) name.resize(name.size() - 3);
      return name + " is missing; accepted: " + accepted_by(*option) +
             (unknown.empty() ? "" : "; options stand before --");
    }
  return std::string(error.what()) + "; " + help;
}

/// `--out=$FILE` with an empty FILE: CLI11 would take the next word, which may be an input.
void refuse_empty_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return;
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      throw std::invalid_argument(shown(word.substr(0, word.size() - 1)) + ": nothing stands behind its =");
  }
}

/// Reads the command line, which runs the callbacks. Help and version are answers, not errors.
void parse(CLI::App& app, int argc, char** argv) {
  refuse_empty_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    // The help of a command that is not there: `halfulp help explian`.
    if (const std::vector<std::string> names = command_names(app); !names.empty() && app.get_subcommands().empty())
      for (const std::string& word : app.remaining())
        if (!word.empty() && word[0] != '-') throw std::invalid_argument(unknown_name("command", word, names));
    write_output(app.help());
  } catch (const CLI::CallForVersion& version) {
    write_output("halfulp " + std::string(version.what()) + "\n" + build_text());
  }
}

/// As many open files as the system allows, for a scope: a checkpoint may be thousands, and shells allow 1024. The
/// process may be Python, which keeps what it had.
class ManyFiles {
 public:
  ManyFiles() : known_(::getrlimit(RLIMIT_NOFILE, &before_) == 0) {
    rlimit most = before_;
    most.rlim_cur = most.rlim_max;
    if (known_) (void)::setrlimit(RLIMIT_NOFILE, &most);
  }
  ~ManyFiles() {
    if (known_) (void)::setrlimit(RLIMIT_NOFILE, &before_);
  }
  ManyFiles(const ManyFiles&) = delete;
  ManyFiles& operator=(const ManyFiles&) = delete;

 private:
  rlimit before_{};
  bool known_;
};

}  // namespace

void print_error(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  write_error("halfulp: " + clean(message) + "\n");
}

namespace {
bool said_so = false;  ///< of this command: what unwinds may find no memory either
}

int out_of_memory() {
  if (!std::exchange(said_so, true)) write_error("halfulp: out of memory\n");  // print_error would need some
  return exit_status::bad_input;
}

int guarded_main(int argc, char** argv, std::string description, const std::function<void(CLI::App&, int&)>& add) {
  said_so = false;
  const std::string_view path = argc > 0 ? argv[0] : "halfulp";
  CLI::App app(std::move(description), std::string(path.substr(path.rfind('/') + 1)));
  int status = exit_status::done;
  std::signal(SIGXFSZ, SIG_IGN);  // makes write() fail beyond `ulimit -f`, as on a full disk
  const ManyFiles many_files;
  try {
    limit_array_instructions_by_environment();
    app.formatter(std::make_shared<HelpFormatter>());
    app.set_help_flag("-h,--help", "the help of this command");
    app.set_version_flag("--version", version_text(), "version, revision and what was compiled in");
    add(app, status);
    make_flags_strict(app);
    parse(app, argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    return report_error(explained(app, error), exit_status::bad_input);
  } catch (const std::invalid_argument& error) {
    return report_error(error.what(), exit_status::bad_input);
  } catch (const BackendMissing& error) {
    return report_error(error.what(), exit_status::backend_missing);
  } catch (const DeviceFailure& error) {
    return report_error(error.what(), exit_status::backend_missing);
  } catch (const Interrupted&) {
    return report_error("interrupted; no file is half-written", exit_status::interrupted);
  } catch (const std::bad_alloc&) { return out_of_memory(); } catch (const std::exception& error) {
    const std::string_view what = error.what();
    // As oneTBB and the standard library say it.
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    if (what.starts_with("pthread_create") || (system && system->code() == std::errc::resource_unavailable_try_again))
      return report_error("no thread could be started: the system allows no more; accepted: --threads 1",
                          exit_status::bad_input);
    return report_error("internal error: " + std::string(what), exit_status::internal_error);
  } catch (...) { return report_error("internal error", exit_status::internal_error); }
}

std::string command_text(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) {
    const std::string word = i == 0 ? std::string(
                                          std::string_view(argv[0]).substr(std::string_view(argv[0]).rfind('/') + 1))
                                    : argv[i];
    const bool plain = !word.empty() &&
                       word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%") ==
                           std::string::npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += (i ? " " : "") + (plain ? word : quoted + "'");
  }
  return text;
}

}  // namespace halfulp::cli
