// Completion of command lines: what the word under the cursor may become. The shells' scripts ask for it at each Tab.
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
  std::string text = {};  ///< a description; may be empty
};

struct Completions {
  std::vector<Candidate> words;  ///< a word that ends in =, : or a comma continues
  bool files = false;            ///< whether names of files may follow, too
};

/// What the last of `words` may become, given the words between "halfulp" and it: commands, options and values as `app`
/// declares them.
Completions complete(const CLI::App& app, const std::vector<std::string>& words);

/// What is known about a value to complete.
struct ValueContext {
  const CLI::App& root;
  const CLI::App& command;
  const std::vector<std::string>& arguments;  ///< the command's positional arguments so far
  std::string_view begun;                     ///< the value as far as it is typed
};

/// The values of an option or positional argument. Throws std::logic_error for an option of an unknown kind.
Completions values_of(const CLI::Option& option, const ValueContext& context);

/// The names "bash" and "zsh", and the script that each shell reads to complete `halfulp`.
struct CompletionScript {
  std::string_view shell, text;
};
extern const CompletionScript completion_scripts[2];

}  // namespace halfulp::cli
