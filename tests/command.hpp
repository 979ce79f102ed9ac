// Runs a program as a user would and keeps its output and status.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace halfulp::tests {

/// A finished program. `status` is its exit status, or 128 + the signal that killed it.
struct Outcome {
  int status = -1;
  bool killed = false;
  std::string out, err;
};

/// The file descriptor of a temporary file that vanishes when closed.
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

/// Runs arguments[0] with the other arguments and with `input` as its standard input. Where `out_path` is given
/// ("/dev/full"), standard output goes to that file.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, const std::string& input = {}, const char* out_path = nullptr) {
    in_.fill(input);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("fork failed");
    if (child_ > 0) return;
    dup2(in_.descriptor(), 0);
    dup2(out_.descriptor(), 1);
    dup2(err_.descriptor(), 2);
    if (out_path && !std::freopen(out_path, "w", stdout)) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void send(int signal) const { ::kill(child_, signal); }

  Outcome wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    return ended(status);
  }
  /// Nothing if the program still runs after that time.
  std::optional<Outcome> wait_for(std::chrono::milliseconds limit) {
    int status = 0;
    for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (waitpid(child_, &status, WNOHANG) == child_) return ended(status);
    return std::nullopt;
  }

 private:
  Outcome ended(int status) {
    child_ = -1;
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), WIFSIGNALED(status), out_.content(),
            err_.content()};
  }

  Scratch in_, out_, err_;
  pid_t child_ = -1;
};

inline Outcome run_program(std::vector<std::string> arguments, const std::string& input = {},
                           const char* out_path = nullptr) {
  return Program(std::move(arguments), input, out_path).wait();
}

/// Sends one signal as soon as `ready()` (after a minute at most), waits, and returns the finished program.
inline Outcome run_interrupted(std::vector<std::string> arguments, const std::function<bool()>& ready,
                               int signal = SIGINT) {
  Program program(std::move(arguments));
  for (int i = 0; i < 12000 && !ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  program.send(signal);
  return program.wait();
}

/// Whether a text is exactly one line, newline included.
inline bool is_one_line(const std::string& text) { return text.size() > 1 && text.find('\n') == text.size() - 1; }

/// Expects an error as every command reports it: an exit status, nothing on standard output but the answers `out` that
/// came before, and on standard error one line "halfulp: ..." that contains `part`.
inline void expect_error(const Outcome& outcome, const std::string& part = {}, int status = 2,
                         const std::string& out = {}) {
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.out, out);
  EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("halfulp: ", 0), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << "no '" << part << "' in: " << outcome.err;
}

#ifdef HALFULP_COMMAND
/// `halfulp ARGUMENTS...`
inline Outcome run_halfulp(std::vector<std::string> arguments, const std::string& input = {},
                           const char* out_path = nullptr) {
  arguments.insert(arguments.begin(), HALFULP_COMMAND);
  return run_program(std::move(arguments), input, out_path);
}

/// The same of `halfulp ARGUMENTS...`
inline void expect_refused(const std::vector<std::string>& arguments, const std::string& part = {}, int status = 2) {
  std::string line = "halfulp";
  for (const std::string& argument : arguments) line += " " + argument;
  SCOPED_TRACE(line);
  expect_error(run_halfulp(arguments), part, status);
}
#endif

}  // namespace halfulp::tests
