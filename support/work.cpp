#include <halfulp/support/work.hpp>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_group.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <streambuf>

namespace halfulp {
namespace {
bool embedded = false;  ///< a NotedInterrupts lives

extern "C" void note(int) { detail::interrupted.store(true, std::memory_order_relaxed); }
}  // namespace

void detail::throw_interrupted() { throw Interrupted{}; }

void on_pieces(std::size_t count, std::size_t grain, const std::function<void(std::size_t, std::size_t)>& f) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, grain),
                    [&](const auto& piece) { f(piece.begin(), piece.end()); });
  // A loop that was cancelled from outside returns, with pieces left undone.
  if (tbb::is_current_task_group_canceling()) throw Interrupted{};
}

void note_interrupts() {
  if (embedded) return;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // under nohup a program goes on
}

NotedInterrupts::NotedInterrupts(bool handles) : handles_(handles) {
  embedded = true;
  detail::interrupted = false;
  if (!handles_) return;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}

NotedInterrupts::~NotedInterrupts() {
  if (handles_) sigaction(SIGINT, &before_, nullptr);
  detail::interrupted = false;
  embedded = false;
}

namespace {

class Buffer : public std::streambuf {
 public:
  explicit Buffer(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (descriptor_ < 0) refuse();
  }
  ~Buffer() override { ::close(descriptor_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  [[noreturn]] void refuse() const { throw std::invalid_argument(path_ + ": cannot be read: " + std::strerror(errno)); }

  int_type underflow() override {
    for (;;) {
      // A wait without end would miss a signal that comes between the check and the wait.
      stop_if_interrupted();
      constexpr int milliseconds = 100;
      pollfd wanted{descriptor_, POLLIN, 0};
      if (::poll(&wanted, 1, milliseconds) <= 0) continue;
      const ssize_t count = ::read(descriptor_, block_.data(), block_.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) refuse();
      if (count == 0) return traits_type::eof();
      setg(block_.data(), block_.data(), block_.data() + count);
      return traits_type::to_int_type(*gptr());
    }
  }

  std::string path_;
  int descriptor_;
  std::array<char, 1 << 16> block_;
};

struct Stream : private Buffer, public std::istream {  // the buffer is made first and destroyed last
  explicit Stream(const std::string& path) : Buffer(path), std::istream(static_cast<Buffer*>(this)) {
    exceptions(std::ios::badbit);  // passes an exception of the buffer on to the reader
  }
};

}  // namespace

std::unique_ptr<std::istream> open_interruptible(const std::string& path) { return std::make_unique<Stream>(path); }

int open_interruptible_for_writing(const std::string& path) {
  for (;;) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    struct stat kind{};
    if (errno != EINTR && (errno != ENXIO || ::stat(path.c_str(), &kind) != 0 || !S_ISFIFO(kind.st_mode))) return -1;
    stop_if_interrupted();
    (void)::poll(nullptr, 0, 50);  // a pipe that nobody reads yet
  }
}

bool write_interruptible(int descriptor, std::string_view text) {
  struct stat kind{};
  const bool waits = ::fstat(descriptor, &kind) != 0 || !S_ISREG(kind.st_mode);
  while (!text.empty()) {
    if (waits) {
      constexpr int milliseconds = 100;
      pollfd wanted{descriptor, POLLOUT, 0};
      if (::poll(&wanted, 1, milliseconds) <= 0) {
        stop_if_interrupted();
        continue;
      }
    }
    // A pipe that is ready takes so much without a wait.
    const ssize_t count = ::write(descriptor, text.data(),
                                  waits ? std::min<std::size_t>(text.size(), PIPE_BUF) : text.size());
    if (count >= 0) text.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR && errno != EAGAIN) return false;
  }
  return true;
}

}  // namespace halfulp
