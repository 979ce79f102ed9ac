#include <halfulp/experiments/run/interrupt.hpp>

#include <halfulp/experiments/experiment.hpp>

#include <signal.h>

namespace halfulp {
namespace {
extern "C" void note(int) { detail::interrupted.store(true, std::memory_order_relaxed); }
}  // namespace

void detail::throw_interrupted() { throw Interrupted{}; }

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace halfulp
