// A regular file of any size, read at positions by any number of threads: nothing of it stays in memory.
//
// Reading instead of mapping: a file that another program cuts short while it is read is an error of one line, where a
// mapping would end the process by a bus error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <vector>

namespace halfulp {

class InputFile {
 public:
  /// Throws std::invalid_argument in one line that begins with the path: no such file, a folder, a pipe or a device,
  /// no permission. `kind` says what is expected: "a .safetensors file".
  InputFile(const std::string& path, const std::string& kind);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  ///< In bytes, when it was opened.

  /// Fills `bytes` from position `offset` on. Throws std::invalid_argument in one line where the file is now shorter,
  /// was changed, or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// The same as text, for headers.
  std::string text(std::uint64_t offset, std::size_t bytes) const;
  /// Throws std::invalid_argument in one line if the file has another size or was written since it was opened.
  void check_unchanged() const;

 private:
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  timespec written_{};
};

}  // namespace halfulp
