// `halfulp completion`: scripts for shells, and what they ask for.
#include <halfulp/commands/completion.hpp>

#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/manual.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace halfulp::cli {
namespace {

struct CompletionArguments {
  std::string shell;
  std::vector<std::string> words;
};

/// The characters that every shell reads literally. Words also come from reports, which may contain anything.
constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,:=+/@%^";

std::string answer(const Completions& found) {
  std::string text;
  for (const Candidate& candidate : found.words)
    if (candidate.word.find_first_not_of(plain) == std::string::npos)
      text += candidate.word + "\t" + shown(candidate.text) + "\n";
  return text + (found.files ? ":files\n" : "");
}

void completion_command(const CLI::App& app, const CompletionArguments& options) {
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
  auto options = std::make_shared<CompletionArguments>();
  auto* command = app.add_subcommand("completion",
                                     "a script that makes a shell complete halfulp's commands, options and values");
  command->add_option("SHELL", options->shell, "bash or zsh")->required();
  command
      ->add_option("WORD", options->words,
                   "behind SHELL words: what the last of these words may become, for the scripts")
      ->group("");
  command->footer(
      "For the shell that runs: source <(halfulp completion bash). For good: put that line into ~/.bashrc or ~/.zshrc; "
      "an installed halfulp brings both scripts.");
  command->callback([&app, options] { completion_command(app, *options); });
}

// The scripts for bash and zsh. Both call `halfulp completion words -- WORD...`, which answers one line per word: the
// word, a Tab and its description; and ":files" where files may follow.

const CompletionScript completion_scripts[2] = {
    {"bash", R"script(# bash completion for halfulp: source <(halfulp completion bash)
_halfulp() {
  # Of the line up to the cursor, for bash itself splits words at = and : too.
  local line=${COMP_LINE:0:COMP_POINT} word='' text prefix files=''
  local -a words=()
  read -ra words <<<"$line"
  case $line in *[[:space:]]) words+=('') ;; esac
  word=${words[${#words[@]}-1]}
  COMPREPLY=()
  while IFS=$'\t' read -r text _; do
    if [[ $text == :files ]]; then files=yes; else COMPREPLY+=("$text"); fi
  done < <("${words[0]/#\~/$HOME}" completion words -- "${words[@]:1}" 2>/dev/null)
  # Readline replaces what stands behind the last = or :.
  prefix=${word%"${word##*[=:]}"}
  if [[ -n $prefix && $COMP_WORDBREAKS == *"${prefix: -1}"* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    word=${word#"$prefix"}
  elif [[ $word == --*=* ]]; then
    word=${word#*=}
  fi
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r text; do COMPREPLY+=("$text"); done < <(compgen -f -- "$word")
  fi
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:,] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _halfulp halfulp
)script"},
    {"zsh", R"script(#compdef halfulp
# zsh completion for halfulp: source <(halfulp completion zsh), or a file _halfulp in a folder of $fpath
_halfulp() {
  local word text files=''
  local -a whole whole_shown open open_shown
  while IFS=$'\t' read -r word text; do
    if [[ $word == :files ]]; then
      files=yes
    elif [[ $word == *[=:,] ]]; then
      open+=("$word") open_shown+=("$word${text:+  -- $text}")
    else
      whole+=("$word") whole_shown+=("$word${text:+  -- $text}")
    fi
  done < <("${(Q)words[1]/#\~/$HOME}" completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#whole )) && compadd -l -d whole_shown -a whole
  (( $#open )) && compadd -l -S '' -d open_shown -a open
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _halfulp ]]; then _halfulp "$@"; else compdef _halfulp halfulp; fi
)script"},
};

namespace {

/// The part of a command line before the word to complete.
class Line {
 public:
  Line(const CLI::App& root, const std::vector<std::string>& words) : root_(root), command_(&root) {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) read(words[i]);
  }

  Completions complete(const std::string& word) const {
    if (awaited_) return values(*awaited_, "", word);
    if (const std::size_t equals = word.find('=');
        !only_arguments_ && word.starts_with("--") && equals != std::string::npos) {
      const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
      return option && takes_value(*option) ? values(*option, word.substr(0, equals + 1), word.substr(equals + 1))
                                            : Completions{};
    }
    if (!only_arguments_ && word.starts_with("-")) return options(word);
    if (command_ == &root_) return commands(word);
    const CLI::Option* argument = positional();
    if (!argument) return only_arguments_ ? Completions{} : options(word);
    return values(*argument, "", word);
  }

 private:
  void read(const std::string& word) {
    if (awaited_) {
      awaited_ = nullptr;
    } else if (word == "--") {
      only_arguments_ = true;
    } else if (!only_arguments_ && word.starts_with("-")) {
      const CLI::Option* option = command_->get_option_no_throw(word.substr(0, word.find('=')));
      if (option && takes_value(*option) && word.find('=') == std::string::npos) awaited_ = option;
    } else if (command_ == &root_) {
      for (const CLI::App* command : root_.get_subcommands([&](const CLI::App* c) { return c->get_name() == word; }))
        command_ = command;
    } else {
      arguments_.push_back(word);
    }
  }

  /// The positional argument that comes next. The last one may take any number of values.
  const CLI::Option* positional() const {
    std::size_t left = arguments_.size();
    const CLI::Option* last = nullptr;
    for (const CLI::Option* option : command_->get_options()) {
      if (!option->get_positional()) continue;
      if (left-- == 0) return option;
      last = option;
    }
    return last && last->get_allow_extra_args() ? last : nullptr;
  }

  Completions options(const std::string& word) const {
    Completions found;
    for (const CLI::Option* option : command_->get_options()) {
      if (option->get_positional() || option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames())
        if (("--" + name).starts_with(word)) found.words.push_back({"--" + name, option->get_description()});
    }
    return found;
  }

  Completions commands(const std::string& word) const {
    Completions found;
    for (const CLI::App* command : root_.get_subcommands([](const CLI::App*) { return true; }))
      if (command->get_name().starts_with(word))
        found.words.push_back({command->get_name(), command->get_description()});
    return found;
  }

  /// Values that begin with what is typed after `prefix` ("--format=").
  Completions values(const CLI::Option& option, const std::string& prefix, const std::string& begun) const {
    Completions all = values_of(option, {root_, *command_, arguments_, begun}), found{{}, all.files};
    for (Candidate& candidate : all.words)
      if (candidate.word.starts_with(begun))
        found.words.push_back({prefix + candidate.word, std::move(candidate.text)});
    return found;
  }

  const CLI::App& root_;
  const CLI::App* command_;
  const CLI::Option* awaited_ = nullptr;  ///< an option whose value comes next
  bool only_arguments_ = false;           ///< after --
  std::vector<std::string> arguments_;
};

}  // namespace

Completions complete(const CLI::App& app, const std::vector<std::string>& words) {
  return Line(app, words).complete(words.empty() ? "" : words.back());
}

}  // namespace halfulp::cli
