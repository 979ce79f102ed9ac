#include <halfulp/support/files.hpp>

#include <halfulp/support/work.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

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

/// Of this process, also where machines or containers share a folder, and their processes have the same number.
std::string process_name() {
  static const unsigned chance = std::random_device{}();
  return fmt::format("{}-{:08x}", ::getpid(), chance);
}

fs::path temporary_beside(const fs::path& target, const char* kind) {
  return target.parent_path() / fmt::format(".{}.{}.{}", target.filename().string(), process_name(), kind);
}

/// The new content of a file is readable by those who could read the earlier one. A file that must not be written is
/// not replaced either.
void take_place_of(const fs::path& target, int fd, const std::string& name) {
  struct stat earlier{};
  if (::stat(target.c_str(), &earlier) != 0 || !S_ISREG(earlier.st_mode)) return;
  if (::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) cannot_write(name, std::strerror(errno));
  (void)::fchmod(fd, earlier.st_mode & 0777);  // some file systems have no such bits
}

/// Waits until a file's content is on its disk, so that no name ever leads to less. Some file systems cannot say.
void sync_file(int fd, const std::string& name) {
  while (::fsync(fd) != 0) {
    if (errno == EINTR) continue;
    if (errno == EINVAL || errno == ENOTSUP || errno == EROFS) return;
    cannot_write(name, std::strerror(errno));
  }
}

/// An open file descriptor. The destructor ignores errors of closing; close() reports them.
class Descriptor {
 public:
  Descriptor(int opened, const std::string& name) : name_(name), fd_(opened) {
    if (fd_ < 0) cannot_write(name_, std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  void write(std::string_view text) {
    if (!write_interruptible(fd_, text)) cannot_write(name_, std::strerror(errno));
  }
  void sync() { sync_file(fd_, name_); }
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0 && errno != EINTR) cannot_write(name_, std::strerror(errno));
  }
  int number() const { return fd_; }

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
  Replacement(const fs::path& target, const std::string& name, std::string_view text, Sync sync)
      : target_(target), name_(name), new_{temporary_beside(target, "tmp")}, old_{temporary_beside(target, "old")} {
    Descriptor file(::open(new_.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), name);
    take_place_of(target, file.number(), name);
    file.write(text);
    if (sync == Sync::yes) file.sync();
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
  Descriptor device(open_interruptible_for_writing(target), name);
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
    // Links that the kernel does not follow, such as another user's in /tmp, are not read by hand either.
    if (::faccessat(AT_FDCWD, target.c_str(), F_OK, AT_EACCESS) != 0 && errno == EACCES)
      cannot_write(path, std::strerror(EACCES));
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
  const Replacement unplaced(target, path, {}, Sync::no);
}

void write_file(const std::string& path, std::string_view text, Sync sync) {
  const fs::path target = written_path(path);
  if (is_folder(target)) cannot_write(path, "it is a directory");
  if (is_device(target)) return write_device(target, path, text);
  Replacement(target, path, text, sync).place();
}

void write_files(const std::vector<FileText>& files) {
  std::deque<Replacement> replacements;
  for (const auto& [path, text] : files) {
    const fs::path target = written_path(path);
    if (is_folder(target)) cannot_write(path, "it is a directory");
    if (!is_device(target)) replacements.emplace_back(target, path, text, Sync::yes);
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

LargeFile::LargeFile(const std::string& path, std::uint64_t bytes) : path_(path), target_(written_path(path)) {
  if (is_folder(target_)) cannot_write(path, "it is a directory");
  if (is_device(target_)) cannot_write(path, "it is no regular file");
  constexpr std::size_t longest_stem = 200;  // a name has at most 255 bytes
  temporary_ = target_.parent_path() / fmt::format(".{}.{}{}", target_.stem().string().substr(0, longest_stem),
                                                   process_name(), target_.extension().string());
  fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) cannot_write(path_, std::strerror(errno));
  try {
    take_place_of(target_, fd_, path_);
  } catch (...) {
    ::close(fd_), ::unlink(temporary_.c_str());
    throw;
  }
  // Some file systems cannot take room in advance: there, writing fails when the room ends.
  if (bytes && ::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0 && (errno == ENOSPC || errno == EFBIG)) {
    const int why = errno;
    ::close(fd_), ::unlink(temporary_.c_str());
    cannot_write(path_, fmt::format("{} bytes: {}", bytes, std::strerror(why)));
  }
}

LargeFile::~LargeFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void LargeFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_write(path_, std::strerror(errno));
    offset += static_cast<std::uint64_t>(count), bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void LargeFile::place() {
  sync_file(fd_, path_);
  const int fd = std::exchange(fd_, -1);
  const bool closed = ::close(fd) == 0 || errno == EINTR;  // what a file system could not keep, it may say only here
  if (closed && ::rename(temporary_.c_str(), target_.c_str()) == 0) return;
  const int why = errno;
  ::unlink(temporary_.c_str());
  cannot_write(path_, std::strerror(why));
}

}  // namespace halfulp

namespace halfulp {

std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse_file(path, "no such file");
  if (std::filesystem::is_directory(status)) refuse_file(path, "a directory, not " + kind);
  if (!std::filesystem::is_regular_file(status)) return open_interruptible(path);
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) refuse_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  return stream;
}

void refuse_file(const std::string& name, const std::string& why) {
  throw std::invalid_argument((name.empty() ? "''" : name) + ": " + why);
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return out + (text.size() > 40 ? "..." : "");
}

namespace {

static_assert(std::endian::native == std::endian::little, "framed files are little-endian");

std::uint64_t hash(std::string_view bytes) { return verify::chunk_digest(std::as_bytes(std::span(bytes))); }

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T at(std::string_view bytes, std::size_t place) {
  T value;
  std::memcpy(&value, bytes.data() + place, sizeof value);
  return value;
}

[[noreturn]] void fail(const std::string& what) { throw std::invalid_argument(what); }

}  // namespace

std::string framed(const FramedFormat& format, std::uint32_t word, std::string_view content) {
  std::string file;
  file.reserve(frame_header_bytes + content.size() + frame_trailer_bytes);
  file = format.magic;
  append(file, format.version);
  append(file, word);
  append(file, std::uint64_t{frame_header_bytes + content.size() + frame_trailer_bytes});
  file += content;
  append(file, hash(file));
  return file;
}

std::string_view unframed(const FramedFormat& format, std::string_view file) {
  if (file.substr(0, format.magic.size()) != format.magic.substr(0, file.size()))
    fail("does not begin with '" + std::string(format.magic) + "'; accepted: " + std::string(format.kind));
  if (file.size() < frame_header_bytes + format.least_content + frame_trailer_bytes)
    fail("truncated: " + std::to_string(file.size()) + " bytes are no header");
  if (const auto version = at<std::uint32_t>(file, 8); version != format.version)
    fail("format version " + std::to_string(version) +
         (version > format.version ? ", written by a newer halfulp" : "") +
         "; accepted: " + std::to_string(format.version));
  if (const auto size = at<std::uint64_t>(file, 16); size != file.size())
    fail((size > file.size() ? "truncated: " : "too long: ") + std::to_string(file.size()) + " bytes of " +
         std::to_string(size));
  const std::size_t end = file.size() - frame_trailer_bytes;
  if (at<std::uint64_t>(file, end) != hash(file.substr(0, end)))
    fail("corrupted: its checksum is not that of its content");
  return file.substr(frame_header_bytes, end - frame_header_bytes);
}

}  // namespace halfulp

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace halfulp::verify {

static_assert(std::endian::native == std::endian::little, "digests are of little-endian words");

std::uint64_t chunk_digest(std::span<const std::byte> results) { return XXH3_64bits(results.data(), results.size()); }

std::string digest(std::span<const std::uint64_t> chunks) {
  const XXH128_hash_t hash = XXH3_128bits(chunks.data(), chunks.size_bytes());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace halfulp::verify

namespace halfulp::cli {
namespace {

/// Whether the lock file still has its name: its last owner removes it.
bool is_current(int fd, const std::string& lock) {
  struct stat held{}, there{};
  return ::fstat(fd, &held) == 0 && ::stat(lock.c_str(), &there) == 0 && held.st_dev == there.st_dev &&
         held.st_ino == there.st_ino;
}

}  // namespace

void check_kept_file(const std::string& option, const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    throw std::invalid_argument(fmt::format(
        "{}: '{}' is a device or a pipe; accepted: a regular file, or the name of a new one", option, path));
  check_writable(path);
}

bool same_file(const std::string& a, const std::string& b) {
  const auto file = [](const std::string& path) {
    std::error_code error;  // a name may be too long
    const auto where = std::filesystem::absolute(written_path(path), error);
    const auto canonical = std::filesystem::weakly_canonical(where, error);
    return error ? where.lexically_normal() : canonical;
  };
  return file(a) == file(b);
}

FileLock::FileLock(const std::string& path, IfTaken if_taken) {
  const std::filesystem::path file = written_path(path);
  lock_ = file.parent_path() / fmt::format(".{}.lock", file.filename().string());
  const auto fail = [&](int error) {
    throw std::invalid_argument(fmt::format("cannot lock '{}': {}: {}", path, lock_, std::strerror(error)));
  };
  for (;;) {
    const int fd = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) fail(errno);
    const int error = ::flock(fd, LOCK_EX | (if_taken == IfTaken::refuse ? LOCK_NB : 0)) == 0 ? 0 : errno;
    if (error == 0 && is_current(fd, lock_)) {
      fd_ = fd;
      return;
    }
    ::close(fd);
    if (error == EWOULDBLOCK)
      throw std::invalid_argument(
          fmt::format("'{}' is in use by another run; accepted: a file of this run alone", path));
    if (error != 0 && error != EINTR) fail(error);
  }
}

FileLock::~FileLock() {
  ::unlink(lock_.c_str());  // while it is locked: a process that waits for it sees that it is gone, and asks again
  ::close(fd_);
}

}  // namespace halfulp::cli
