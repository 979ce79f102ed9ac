#include <halfulp/experiments/cli/kept_file.hpp>

#include <halfulp/experiments/report/output_file.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace halfulp::cli {
namespace {

/// Whether the lock's file is still the one of that name: its last owner removes it.
bool is_current(int fd, const std::string& lock) {
  struct stat held{}, there{};
  return ::fstat(fd, &held) == 0 && ::stat(lock.c_str(), &there) == 0 && held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace

void check_kept_file(const std::string& option, const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) && !std::filesystem::is_directory(status))
    throw std::invalid_argument(fmt::format("{}: '{}' is a device or a pipe; accepted: a regular file, or the name of a new one", option, path));
  check_writable(path);
}

bool same_file(const std::string& a, const std::string& b) {
  const auto file = [](const std::string& path) { return std::filesystem::weakly_canonical(std::filesystem::absolute(written_path(path))); };
  return file(a) == file(b);
}

FileLock::FileLock(const std::string& path, IfTaken if_taken) {
  const std::filesystem::path file = written_path(path);
  lock_ = file.parent_path() / fmt::format(".{}.lock", file.filename().string());
  const auto fail = [&](int error) { throw std::invalid_argument(fmt::format("cannot lock '{}': {}: {}", path, lock_, std::strerror(error))); };
  for (;;) {
    const int fd = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) fail(errno);
    const int error = ::flock(fd, LOCK_EX | (if_taken == IfTaken::refuse ? LOCK_NB : 0)) == 0 ? 0 : errno;
    if (error == 0 && is_current(fd, lock_)) {
      fd_ = fd;
      return;
    }
    ::close(fd);
    if (error == EWOULDBLOCK) throw std::invalid_argument(fmt::format("'{}' is in use by another run; accepted: a file of this run alone", path));
    if (error != 0 && error != EINTR) fail(error);
  }
}

FileLock::~FileLock() {
  ::unlink(lock_.c_str());  // while it is locked: whoever waits for it sees that it is gone, and asks again
  ::close(fd_);
}

}  // namespace halfulp::cli
