// Ctrl-C and SIGTERM: noticed, acted on at the next safe place.
#pragma once

#include <atomic>

#include <signal.h>

namespace halfulp {

namespace detail {
/// The one piece of global state: a signal handler has nothing else to write to.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
[[noreturn]] void throw_interrupted();
}  // namespace detail

/// From now on SIGINT and SIGTERM are only noted. A second one ends the program as usual.
void note_interrupts();

/// For a program that outlives its commands: while one lives, SIGINT is noted, however often it comes, and note_interrupts() does
/// nothing. Afterwards the handler that was there before is back, and nothing is noted any more. One at a time.
class NotedInterrupts {
 public:
  /// `handles` false: SIGINT stays as it is (it belongs to another thread).
  explicit NotedInterrupts(bool handles);
  ~NotedInterrupts();
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;
  /// Whether one came.
  bool noted() const { return detail::interrupted.load(std::memory_order_relaxed); }

 private:
  bool handles_;
  struct sigaction before_ {};
};

/// Throws Interrupted (experiment.hpp) if one was noted. One load: cheap enough for every operation of `Arithmetic` and
/// every piece of `parallel_map`, so that experiments need no checks of their own where they use either.
inline void stop_if_interrupted() {
  if (detail::interrupted.load(std::memory_order_relaxed)) [[unlikely]] detail::throw_interrupted();
}

}  // namespace halfulp
