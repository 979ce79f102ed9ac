// The command line in this process: one route for every command, with its output captured.
#include "module.hpp"

#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/support/work.hpp>

#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <unistd.h>

namespace halfulp::python {
namespace {

/// `halfulp ARGUMENTS...`; its exit status.
int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"halfulp"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return cli::run_command_line(static_cast<int>(words.size()), argv.data());
}

/// Commands take turns. A turn belongs to a process: a child forked while another thread has the turn lacks that thread
/// and would wait for ever, so it is refused. A waiting thread notices Ctrl-C.
class Turn {
 public:
  Turn() {
    const pid_t self = getpid();
    for (pid_t holder = 0; !holder_.compare_exchange_strong(holder, self); holder = 0) {
      if (holder != 0 && holder != self)
        throw std::runtime_error(
            "a command was running when this process was forked off; accepted: fork before, or start processes by "
            "'spawn'");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      stop_if_asked();
    }
  }
  ~Turn() { holder_.store(0); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static inline std::atomic<pid_t> holder_{0};
};

nb::tuple command(const std::vector<std::string>& arguments, const std::string& input, bool handles_interrupts) {
  for (const std::string& word : arguments)
    if (word.find('\0') != std::string::npos) throw std::invalid_argument("an argument contains a NUL character");
  int status = 0;
  bool interrupted = false;
  std::string output, error;
  {
    const nb::gil_scoped_release released;
    const Turn turn;
    const NotedInterrupts interrupts(handles_interrupts);
    cli::Captured captured(input);
    status = run(arguments);
    interrupted = interrupts.noted();
    output = std::move(captured.output), error = std::move(captured.error);
  }
  return nb::make_tuple(status, nb::bytes(output.data(), output.size()), nb::bytes(error.data(), error.size()),
                        interrupted);
}

}  // namespace

void add_command(nb::module_& m) {
  m.def(
      "command", &command, nb::arg("arguments"), nb::arg("input"), nb::arg("handles_interrupts"),
      nb::sig(
          "def command(arguments: list[str], input: str, handles_interrupts: bool) -> tuple[int, bytes, bytes, bool]"),
      "Runs `halfulp ARGUMENTS...` in this process: exit status, standard output, standard error, whether Ctrl-C came "
      "(handled here if "
      "`handles_interrupts`: in the main thread). One at a time.");
  m.def("program", &run, nb::arg("arguments"), nb::sig("def program(arguments: list[str]) -> int"),
        nb::call_guard<nb::gil_scoped_release>(),
        "The same on this process's own input, output and signals: what a program does, which ends with the exit "
        "status.");
}

}  // namespace halfulp::python
