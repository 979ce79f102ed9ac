#include <halfulp/experiments/run/interrupt.hpp>

#include <halfulp/experiments/experiment.hpp>

#include <csignal>

#include <signal.h>

namespace halfulp {
namespace {
// The one piece of global state: a signal handler has nothing else to write to.
volatile std::sig_atomic_t interrupted = 0;
extern "C" void note(int) { interrupted = 1; }
}  // namespace

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void stop_if_interrupted() {
  if (interrupted) throw Interrupted{};
}

}  // namespace halfulp
