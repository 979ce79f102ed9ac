#include <halfulp/experiments/cli/completion.hpp>

#include <halfulp/experiments/cli/manual.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>

namespace halfulp::cli {
namespace {

/// The part of a command line before the word that is completed.
class Line {
 public:
  Line(const CLI::App& root, const std::vector<std::string>& words) : root_(root), command_(&root) {
    for (std::size_t i = 0; i + 1 < words.size(); ++i) read(words[i]);
  }

  Completions complete(const std::string& word) const {
    if (awaited_) return values(*awaited_, "", word);
    if (const std::size_t equals = word.find('='); !only_arguments_ && word.starts_with("--") && equals != std::string::npos) {
      const CLI::Option* option = command_->get_option_no_throw(word.substr(0, equals));
      return option && takes_value(*option) ? values(*option, word.substr(0, equals + 1), word.substr(equals + 1)) : Completions{};
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
      for (const CLI::App* command : root_.get_subcommands([&](const CLI::App* c) { return c->get_name() == word; })) command_ = command;
    } else {
      arguments_.push_back(word);
    }
  }

  /// The positional argument that comes next; the last one may take any number.
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
      if (command->get_name().starts_with(word)) found.words.push_back({command->get_name(), command->get_description()});
    return found;
  }

  /// Values that begin as what is typed does, behind `prefix` ("--format=").
  Completions values(const CLI::Option& option, const std::string& prefix, const std::string& begun) const {
    Completions all = values_of(option, {root_, *command_, arguments_, begun}), found{{}, all.files};
    for (Candidate& candidate : all.words)
      if (candidate.word.starts_with(begun)) found.words.push_back({prefix + candidate.word, std::move(candidate.text)});
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
