// Long work: on all threads, and ended by Ctrl-C or SIGTERM at the next safe place.
#pragma once

#include <signal.h>
#include <tbb/parallel_for.h>

#include <atomic>
#include <istream>
#include <memory>
#include <string>
#include <vector>

namespace halfulp {

/// Thrown after Ctrl-C by Run::progress, parallel_map and every operation of Arithmetic: exit status 130, nothing
/// written. A long loop without any of these calls stop_if_interrupted itself.
struct Interrupted {};

namespace detail {
/// The one piece of global state: a signal handler has nothing else to write to.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
[[noreturn]] void throw_interrupted();
}  // namespace detail

/// From now on SIGINT and SIGTERM are only noted. A second one ends the program as usual.
void note_interrupts();

/// For a program that outlives its commands: while one lives, SIGINT is noted, however often it comes, and
/// note_interrupts() does nothing. Afterwards the handler that was there before is back, and nothing is noted any more.
/// One at a time.
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
  struct sigaction before_{};
};

/// Throws Interrupted if one was noted. One load: cheap enough for every operation of `Arithmetic` and
/// every piece of `parallel_map`, so that experiments need no checks of their own where they use either.
inline void stop_if_interrupted() {
  if (detail::interrupted.load(std::memory_order_relaxed)) [[unlikely]]
    detail::throw_interrupted();
}

// Independent pieces of work on all cores, results in order: the number of threads never shows.

/// {f(0), ..., f(count - 1)}, computed in any order on any number of threads (the command line's --threads).
/// f must not share mutable state between calls: give each its own Trace and append them afterwards. Throws what f
/// throws, and Interrupted after Ctrl-C before the next piece.
template <class F>
auto parallel_map(std::size_t count, F&& f) {
  std::vector<decltype(f(std::size_t{}))> results(count);
  tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    stop_if_interrupted();
    results[i] = f(i);
  });
  return results;
}

// Reading what may keep its reader waiting: pipes and terminals, with Ctrl-C noticed while nothing comes.

/// A pipe, terminal or device as a stream without positions (tellg gives -1). Opening it does not wait for a writer;
/// reading waits, and throws Interrupted after Ctrl-C. Throws std::invalid_argument in one line that begins with the
/// path where it cannot be opened or read.
std::unique_ptr<std::istream> open_interruptible(const std::string& path);

}  // namespace halfulp
