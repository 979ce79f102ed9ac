// Completion of command lines: what the word under the cursor may become. The scripts for shells ask for it at each
// Tab.
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
  std::vector<Candidate> words;  ///< one that ends in =, : or a comma goes on
  bool files = false;            ///< names of files, too
};

/// What the last of `words` may become, after "halfulp" and the words before it: commands, options and values as `app`
/// declares them.
Completions complete(const CLI::App& app, const std::vector<std::string>& words);

/// What is known of a value that is to be completed.
struct ValueContext {
  const CLI::App& root;
  const CLI::App& command;
  const std::vector<std::string>& arguments;  ///< the command's positional arguments so far
  std::string_view begun;                     ///< the value as far as it is typed
};

/// The values of an option or positional argument; an option of no kind that is known here throws std::logic_error.
Completions values_of(const CLI::Option& option, const ValueContext& context);

/// "bash", "zsh", and the script that a shell reads to complete `halfulp`.
struct CompletionScript {
  std::string_view shell, text;
};
extern const CompletionScript completion_scripts[2];

}  // namespace halfulp::cli
