// Ctrl-C and SIGTERM: noticed, acted on at the next safe place.
#pragma once

#include <atomic>

namespace halfulp {

namespace detail {
/// The one piece of global state: a signal handler has nothing else to write to.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
[[noreturn]] void throw_interrupted();
}  // namespace detail

/// From now on SIGINT and SIGTERM are only noted. A second one ends the program as usual.
void note_interrupts();

/// Throws Interrupted (experiment.hpp) if one was noted. One load: cheap enough for every operation of `Arithmetic` and
/// every piece of `parallel_map`, so that experiments need no checks of their own where they use either.
inline void stop_if_interrupted() {
  if (detail::interrupted.load(std::memory_order_relaxed)) [[unlikely]] detail::throw_interrupted();
}

}  // namespace halfulp
