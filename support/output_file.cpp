#include <halfulp/support/files.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <deque>
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

fs::path temporary_beside(const fs::path& target, const char* kind) {
  return target.parent_path() / fmt::format(".{}.{}.{}", target.filename().string(), ::getpid(), kind);
}

/// An open file descriptor. The destructor ignores errors of closing; close() reports them.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const std::string& name)
      : name_(name), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
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

/// A complete file beside its target, ready to be renamed. The earlier file can be restored.
class Replacement {
 public:
  Replacement(const fs::path& target, const std::string& name, std::string_view text)
      : target_(target), name_(name), new_{temporary_beside(target, "tmp")}, old_{temporary_beside(target, "old")} {
    Descriptor file(new_.path, O_WRONLY | O_CREAT | O_EXCL, name);
    file.write(text);
    file.close();
  }
  /// Gives the earlier file a second name, so that the target exists at every moment.
  void keep_old() {
    kept_ = ::link(target_.c_str(), old_.path.c_str()) == 0 ? Kept::old
            : errno == ENOENT                               ? Kept::nothing
                                                            : Kept::unknown;
  }
  void place() {
    if (::rename(new_.path.c_str(), target_.c_str()) != 0) cannot_write(name_, std::strerror(errno));
    placed_ = true;
  }
  void take_back() {
    if (!placed_) return;
    if (kept_ == Kept::old) ::rename(old_.path.c_str(), target_.c_str());
    if (kept_ == Kept::nothing) ::unlink(target_.c_str());
  }

 private:
  enum class Kept { unknown, nothing, old };  // unknown: a file system without links
  fs::path target_;
  std::string name_;
  Temporary new_, old_;
  Kept kept_ = Kept::unknown;
  bool placed_ = false;
};

void write_device(const fs::path& target, const std::string& name, std::string_view text) {
  Descriptor device(target, O_WRONLY, name);
  device.write(text);
  device.close();
}

}  // namespace

fs::path written_path(const std::string& path) {
  constexpr int most_links = 40;  // as Linux allows
  fs::path target = path;
  if (is_device(target)) return target;  // the target of /dev/stdout may have no path
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
  const Replacement unplaced(target, path, {});
}

void write_file(const std::string& path, std::string_view text) {
  const fs::path target = written_path(path);
  if (is_folder(target)) cannot_write(path, "it is a directory");
  if (is_device(target)) return write_device(target, path, text);
  Replacement(target, path, text).place();
}

void write_files(const std::vector<FileText>& files) {
  std::deque<Replacement> replacements;
  for (const auto& [path, text] : files) {
    const fs::path target = written_path(path);
    if (is_folder(target)) cannot_write(path, "it is a directory");
    if (!is_device(target)) replacements.emplace_back(target, path, text);
  }
  for (const auto& [path, text] : files)  // devices first: they may fail, and nothing written to them can be undone
    if (const fs::path target = written_path(path); is_device(target)) write_device(target, path, text);
  try {
    for (Replacement& r : replacements) r.keep_old(), r.place();
  } catch (...) {
    for (Replacement& r : replacements) r.take_back();
    throw;
  }
}

}  // namespace halfulp
