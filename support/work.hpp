// Long work: it runs on all threads, and Ctrl-C, SIGTERM or a closed terminal ends it at the next safe place.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Thrown after Ctrl-C by Run::progress, parallel_map and every operation of Arithmetic: exit status 130, nothing
/// written. A long loop without any of these must call stop_if_interrupted.
struct Interrupted {};

namespace detail {
/// The only global state: a signal handler can write to nothing else.
inline std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
[[noreturn]] void throw_interrupted();
}  // namespace detail

/// From now on the first SIGINT, SIGTERM or SIGHUP (unless nohup ignores it) is only noted. A second one ends the
/// program as usual.
void note_interrupts();

/// For a program that outlives its commands. While an object lives, every SIGINT is only noted and note_interrupts()
/// does nothing. The destructor restores the earlier handler and forgets what was noted. At most one lives at a time.
class NotedInterrupts {
 public:
  /// `handles` false: the handler of SIGINT does not change, because it belongs to another thread.
  explicit NotedInterrupts(bool handles);
  ~NotedInterrupts();
  NotedInterrupts(const NotedInterrupts&) = delete;
  NotedInterrupts& operator=(const NotedInterrupts&) = delete;
  /// Whether a SIGINT came.
  bool noted() const { return detail::interrupted.load(std::memory_order_relaxed); }

 private:
  bool handles_;
  struct sigaction before_{};
};

/// Throws Interrupted if a signal was noted. It costs one load. Every operation of `Arithmetic` and every piece of
/// `parallel_map` calls it, so that experiments which use either need no checks of their own.
inline void stop_if_interrupted() {
  if (detail::interrupted.load(std::memory_order_relaxed)) [[unlikely]]
    detail::throw_interrupted();
}

// Independent pieces of work on all cores. Results come in order: the number of threads never shows.

/// Calls f(begin, end) on pieces of [0, count), in any order on any number of threads. Pieces of at most `grain` are
/// not split further. Throws what f throws, and Interrupted inside a piece of another loop that was cancelled: then
/// pieces may be left undone.
void on_pieces(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& f);

/// {f(0), ..., f(count - 1)}, computed in any order on any number of threads (the command line's --threads). Calls of f
/// must not share mutable state: give each its own Trace and append them afterwards. Throws what f throws, and
/// Interrupted before the next piece after Ctrl-C. Inside a piece of another loop that was cancelled, because one of
/// its pieces threw, it throws Interrupted, which nobody sees: the first exception is the one that is thrown on.
template <class F>
auto parallel_map(std::size_t count, F&& f) {
  std::vector<decltype(f(std::size_t{}))> results(count);
  on_pieces(count, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      stop_if_interrupted();
      results[i] = f(i);
    }
  });
  return results;
}

// Pipes and terminals may keep a reader waiting; these notice Ctrl-C meanwhile.

/// A pipe, terminal or device as a stream without positions (tellg gives -1). Opening it does not wait for a writer;
/// reading waits, and throws Interrupted after Ctrl-C. Throws std::invalid_argument in one line that begins with the
/// path where it cannot be opened or read.
std::unique_ptr<std::istream> open_interruptible(const std::string& path);

/// Opens a pipe, terminal or device for writing, waits for a pipe's reader, and throws Interrupted after Ctrl-C. -1 and
/// errno where it cannot be opened.
int open_interruptible_for_writing(const std::string& path);

/// Writes all of a text to an open descriptor; throws Interrupted after Ctrl-C while nobody reads. False and errno
/// where it cannot be written.
bool write_interruptible(int descriptor, std::string_view text);

}  // namespace halfulp
