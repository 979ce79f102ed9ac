#include <halfulp/commands/program.hpp>

#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace halfulp::cli {
namespace {

/// A file without a name. Unlike a pipe, it does not fill up while nobody reads.
class Stream {
 public:
  explicit Stream(std::string_view text = {}) : file_(std::tmpfile(), &std::fclose) {
    if (!file_) throw std::runtime_error(fmt::format("no temporary file: {}", std::strerror(errno)));
    ::fcntl(fd(), F_SETFD, FD_CLOEXEC);
    if ((!text.empty() && std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) ||
        std::fflush(file_.get()) != 0)
      throw std::runtime_error(fmt::format("temporary file: {}", std::strerror(errno)));
    std::rewind(file_.get());
  }
  int fd() const { return ::fileno(file_.get()); }
  std::string text() const {
    std::rewind(file_.get());
    std::string all;
    char block[1 << 16];
    while (const std::size_t count = std::fread(block, 1, sizeof block, file_.get())) all.append(block, count);
    return all;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at) {
    const std::string_view entry = *at;
    bool replaced = false;
    for (const auto& [name, value] : variables) replaced = replaced || entry.starts_with(name + "=");
    if (!replaced) all.emplace_back(entry);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

}  // namespace

std::optional<ProgramAnswer> run_program(const std::vector<std::string>& words,
                                         const std::vector<std::pair<std::string, std::string>>& variables,
                                         std::string_view input) {
  note_interrupts();
  const Stream in(input), out, error;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> kept(
      &actions, &posix_spawn_file_actions_destroy);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error.fd(), STDERR_FILENO);
  std::vector<std::string> arguments = words, environment = environment_with(variables);
  pid_t child = 0;
  if (const int why = ::posix_spawnp(&child, words.at(0).c_str(), &actions, nullptr, pointers(arguments).data(),
                                     pointers(environment).data());
      why != 0) {
    if (why == ENOENT || why == EACCES || why == ENOTDIR) return std::nullopt;
    throw std::runtime_error(fmt::format("cannot start {}: {}", words[0], std::strerror(why)));
  }
  int ended = 0;
  bool told = false;
  for (;;) {  // looks now and then, for a signal to this program alone does not end the wait
    const pid_t found = ::waitpid(child, &ended, WNOHANG);
    if (found == child) break;
    if (found < 0 && errno != EINTR)
      throw std::runtime_error(fmt::format("waiting for {}: {}", words[0], std::strerror(errno)));
    if (detail::interrupted.load() && !std::exchange(told, true)) ::kill(child, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stop_if_interrupted();
  return ProgramAnswer{WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended), out.text(), error.text()};
}

}  // namespace halfulp::cli
