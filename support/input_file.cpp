#include <halfulp/support/input_file.hpp>

#include <halfulp/support/files.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace halfulp {
namespace {

struct stat facts_of(int fd, const std::string& path) {
  struct stat facts{};
  if (::fstat(fd, &facts) != 0) refuse_file(path, std::string("cannot be read: ") + std::strerror(errno));
  return facts;
}

}  // namespace

InputFile::InputFile(const std::string& path, const std::string& kind) : path_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse_file(path, "no such file");
  if (std::filesystem::is_directory(status)) refuse_file(path, "a directory, not " + kind);
  if (!std::filesystem::is_regular_file(status))
    refuse_file(path, "a pipe or a device; accepted: " + kind + " on a disk, which is read at any position");
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) refuse_file(path, std::string("cannot be read: ") + std::strerror(errno));
  struct stat facts{};
  if (::fstat(fd_, &facts) != 0) {
    const int why = errno;
    ::close(fd_);
    refuse_file(path, std::string("cannot be read: ") + std::strerror(why));
  }
  size_ = static_cast<std::uint64_t>(facts.st_size), written_ = facts.st_mtim;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_), written_(other.written_) {}

void InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_file(path_, std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) {
      check_unchanged();
      refuse_file(path_, fmt::format("ends at byte {}, before byte {}", size_, offset + bytes.size()));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count)), offset += static_cast<std::uint64_t>(count);
  }
}

std::string InputFile::text(std::uint64_t offset, std::size_t bytes) const {
  std::string text(bytes, '\0');
  read(offset, std::as_writable_bytes(std::span(text.data(), text.size())));
  return text;
}

void InputFile::check_unchanged() const {
  const struct stat facts = facts_of(fd_, path_);
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size != size_) refuse_file(path_, fmt::format("changed while it was read: {} bytes, before {}", size, size_));
  if (facts.st_mtim.tv_sec != written_.tv_sec || facts.st_mtim.tv_nsec != written_.tv_nsec)
    refuse_file(path_, "changed while it was read: written to since it was opened");
}

}  // namespace halfulp
