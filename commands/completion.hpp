// Completion of command lines: what the word under the cursor may become. Scripts of shells ask this at each Tab.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace halfulp::cli {

struct Candidate {
  std::string word;
  std::string text = {};  ///< what it is; may be empty
};

struct Completions {
  std::vector<Candidate> words;  ///< after a word that ends in =, : or a comma the shell adds no blank
  bool files = false;            ///< names of files fit too
};

/// What the last of `words` may become, after "halfulp" and the words before it: commands, options and values as `app`
/// declares them.
Completions complete(const CLI::App& app, const std::vector<std::string>& words);

/// What is known of the value to complete.
struct ValueContext {
  const CLI::App& root;
  const CLI::App& command;
  const std::vector<std::string>& arguments;  ///< the command's positional arguments so far
  std::string_view begun;                     ///< the typed part of the value
};

/// The values of an option or positional argument. Throws std::logic_error for an option of an unknown kind.
Completions values_of(const CLI::Option& option, const ValueContext& context);

/// The script that a shell, "bash" or "zsh", reads to complete `halfulp`.
struct CompletionScript {
  std::string_view shell, text;
};
extern const CompletionScript completion_scripts[2];

}  // namespace halfulp::cli
