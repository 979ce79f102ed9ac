#include <halfulp/experiments/run/interrupt.hpp>

#include <halfulp/experiments/experiment.hpp>

namespace halfulp {
namespace {
bool embedded = false;  ///< NotedInterrupts is in charge

extern "C" void note(int) { detail::interrupted.store(true, std::memory_order_relaxed); }
}  // namespace

void detail::throw_interrupted() { throw Interrupted{}; }

void note_interrupts() {
  if (embedded) return;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

NotedInterrupts::NotedInterrupts(bool handles) : handles_(handles) {
  embedded = true;
  detail::interrupted = false;
  if (!handles_) return;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

NotedInterrupts::~NotedInterrupts() {
  if (handles_) sigaction(SIGINT, &before_, nullptr);
  detail::interrupted = false;
  embedded = false;
}

}  // namespace halfulp
