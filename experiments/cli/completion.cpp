// `halfulp completion`: scripts for shells, and what they ask for.
#include <halfulp/experiments/cli/completion.hpp>

#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/formats/nearest.hpp>

#include <memory>
#include <stdexcept>
#include <string_view>

namespace halfulp::cli {
namespace {

struct Options {
  std::string shell;
  std::vector<std::string> words;
};

/// What no shell reads as more than itself: words come from reports too, which may say anything.
constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:=+/@%^";

std::string answer(const Completions& found) {
  std::string text;
  for (const Candidate& candidate : found.words)
    if (candidate.word.find_first_not_of(plain) == std::string::npos) text += candidate.word + "\t" + shown(candidate.text) + "\n";
  return text + (found.files ? ":files\n" : "");
}

void completion_command(const CLI::App& app, const Options& options) {
  if (options.shell == "words") return write_output(answer(complete(app, options.words)));
  if (!options.words.empty()) throw std::invalid_argument("completion takes a SHELL alone; accepted: bash, zsh");
  std::vector<std::string> shells;
  for (const CompletionScript& script : completion_scripts) {
    if (options.shell == script.shell) return write_output(script.text);
    shells.emplace_back(script.shell);
  }
  throw std::invalid_argument(unknown_name("shell", options.shell, std::move(shells)));
}

}  // namespace

void add_completion_command(CLI::App& app, int&) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("completion", "a script that makes a shell complete halfulp's commands, options and values");
  command->add_option("SHELL", options->shell, "bash or zsh")->required();
  command->add_option("WORD", options->words, "behind SHELL words: what the last of these words may become, for the scripts")->group("");
  command->footer("For the shell that runs: source <(halfulp completion bash). For good: put that line into ~/.bashrc or ~/.zshrc; an installed halfulp brings both scripts.");
  command->callback([&app, options] { completion_command(app, *options); });
}

}  // namespace halfulp::cli
