#include <halfulp/support/files.hpp>

#include <halfulp/support/work.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string_view>

namespace halfulp {

std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse_file(path, "no such file");
  if (std::filesystem::is_directory(status)) refuse_file(path, "a directory, not " + kind);
  if (!std::filesystem::is_regular_file(status)) return open_interruptible(path);
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) refuse_file(path, "cannot be read");
  return stream;
}

void refuse_file(const std::string& name, const std::string& why) { throw std::invalid_argument(name + ": " + why); }

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
    return std::filesystem::weakly_canonical(std::filesystem::absolute(written_path(path)));
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
