// Runs a program as a user would and keeps everything it answered.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp::testing {

/// What a program left behind. `status` is its exit status, or 128 + the signal that killed it.
struct Outcome {
  int status = -1;
  std::string out, err;
};

/// The file descriptors behind a temporary file that vanishes when closed.
class Scratch {
 public:
  Scratch() : file_(std::tmpfile()) {
    if (!file_) throw std::runtime_error("no temporary file");
  }
  ~Scratch() { std::fclose(file_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  int descriptor() const { return fileno(file_); }
  void fill(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), file_);
    std::rewind(file_);
  }
  std::string content() const {
    std::string text;
    std::rewind(file_);
    char block[4096];
    while (const std::size_t n = std::fread(block, 1, sizeof block, file_)) text.append(block, n);
    return text;
  }

 private:
  std::FILE* file_;
};

/// Runs arguments[0] with the rest as its arguments and `input` on its standard input. Its standard output goes to the
/// file `out_path` instead where one is given ("/dev/full").
inline Outcome run_program(std::vector<std::string> arguments, const std::string& input = {},
                           const char* out_path = nullptr) {
  Scratch in, out, err;
  in.fill(input);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    dup2(in.descriptor(), 0);
    dup2(out.descriptor(), 1);
    dup2(err.descriptor(), 2);
    if (out_path && !std::freopen(out_path, "w", stdout)) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), out.content(), err.content()};
}

#ifdef HALFULP_COMMAND
/// `halfulp ARGUMENTS...`
inline Outcome run_halfulp(std::vector<std::string> arguments, const std::string& input = {},
                           const char* out_path = nullptr) {
  arguments.insert(arguments.begin(), HALFULP_COMMAND);
  return run_program(std::move(arguments), input, out_path);
}
#endif

/// Whether a text is exactly one line, newline included.
inline bool is_one_line(const std::string& text) {
  return text.size() > 1 && text.find('\n') == text.size() - 1;
}

}  // namespace halfulp::testing
