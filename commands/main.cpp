// `halfulp`: formats, arithmetic, experiments and reports on the command line. Links to it with an experiment's name
// (`underflow`, or `halfulp-underflow` where it is installed) run that experiment.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include <fcntl.h>

namespace {

/// A standard stream that was closed (`>&-`) must not become the first file that is opened: what is printed would go
/// there. It is given a file on which its use fails, or for errors, nothing happens.
void hold_standard_streams() {
  constexpr int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) == -1) (void)::open("/dev/null", modes[stream]);  // takes the lowest free number
}

std::terminate_handler terminate_before = nullptr;

/// Some destructors need memory, such as those of JSON values. Where there is none, nothing can be unwound.
[[noreturn]] void end_without_memory() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) { std::_Exit(halfulp::cli::out_of_memory()); } catch (...) {
  }
  terminate_before();
  std::abort();
}

}  // namespace

int main(int argc, char** argv) try {
  terminate_before = std::set_terminate(end_without_memory);
  hold_standard_streams();
  std::string_view called = argc > 0 ? argv[0] : "";
  called.remove_prefix(called.rfind('/') + 1);  // npos + 1 is 0
  if (called.starts_with("halfulp-")) called.remove_prefix(8);
  if (halfulp::cli::is_experiment(called)) return halfulp::cli::single_experiment_main(argc, argv, called);
  return halfulp::cli::run_command_line(argc, argv);
} catch (const std::bad_alloc&) { return halfulp::cli::out_of_memory(); }
