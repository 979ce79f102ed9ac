#include <halfulp/experiments/report/output_file.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  throw std::invalid_argument(fmt::format("cannot write {}: {}", path, why));
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_device(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

fs::path temporary_beside(const fs::path& target) {
  return target.parent_path() / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid());
}

/// An open file descriptor; the destructor closes it without looking, close() reports what the file system held back.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const std::string& name) : name_(name), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) cannot_write(name_, std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::write(fd_, text.data(), text.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) cannot_write(name_, std::strerror(errno));
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0 && errno != EINTR) cannot_write(name_, std::strerror(errno));
  }

 private:
  std::string name_;
  int fd_;
};

/// Removes the temporary file unless it was renamed away.
struct Temporary {
  fs::path path;
  ~Temporary() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

void write_beside(const fs::path& target, const std::string& name, std::string_view text, bool keep) {
  const Temporary temporary{temporary_beside(target)};
  Descriptor file(temporary.path, O_WRONLY | O_CREAT | O_EXCL, name);
  file.write(text);
  file.close();
  if (keep && ::rename(temporary.path.c_str(), target.c_str()) != 0) cannot_write(name, std::strerror(errno));
}

}  // namespace

fs::path written_path(const std::string& path) {
  constexpr int most_links = 40;  // as Linux allows
  fs::path target = path;
  if (is_device(target)) return target;  // some links to them (/dev/stdout) lead nowhere a path could
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    if (links == most_links) cannot_write(path, std::strerror(ELOOP));
    const fs::path next = fs::read_symlink(target, error);
    if (error) cannot_write(path, error.message());
    target = target.parent_path() / next;
  }
  return target;
}

void check_writable(const std::string& path) {
  const fs::path target = written_path(path);
  if (is_folder(target)) cannot_write(path, "it is a directory");
  if (is_device(target)) {
    if (::access(target.c_str(), W_OK) != 0) cannot_write(path, std::strerror(errno));
    return;
  }
  write_beside(target, path, {}, false);
}

void write_file(const std::string& path, std::string_view text) {
  const fs::path target = written_path(path);
  if (is_folder(target)) cannot_write(path, "it is a directory");
  if (!is_device(target)) return write_beside(target, path, text, true);
  Descriptor device(target, O_WRONLY, path);
  device.write(text);
  device.close();
}

}  // namespace halfulp
