// Files: written completely or not at all, framed with a checksum, locked, opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {

/// Throws std::invalid_argument with one line if a file at `path` cannot be written now (no such directory, no
/// permission, an earlier file that is read-only, a directory in its place, links in a circle or of another user in a
/// folder for all). Leaves nothing behind.
void check_writable(const std::string& path);

/// Where writing to a path ends up: for a link this is its target, which need not exist; for a device it is the path
/// itself. Throws std::invalid_argument for links in a circle and those that the kernel does not follow.
std::filesystem::path written_path(const std::string& path);

/// Whether a file is on its disk before it takes its place: after a power failure it is the earlier one or all of the
/// new one. `no` is for files that show what they lack (framed), of which there are many.
enum class Sync { no, yes };

/// Writes `text` to a temporary file beside `path` and renames that when it is complete. Devices and pipes are written
/// directly. For a link the target is written, even if it does not exist yet. Throws std::invalid_argument with one
/// line (a full disk, ...); an earlier file is then untouched. The new one has the permissions of the earlier one.
void write_file(const std::string& path, std::string_view text, Sync sync = Sync::yes);

/// A path and the content of its file.
using FileText = std::pair<std::string, std::string>;

/// Writes several files, or none: all are complete beside their places before the first is renamed into its own, and
/// where one cannot be, those before it are as they were. (Devices are written before that, and keep what they were
/// given.)
void write_files(const std::vector<FileText>& files);

/// A file that is too large for memory: written at positions, by any number of threads, beside its place, which it
/// takes when it is complete. Without place() nothing is left of it.
class LargeFile {
 public:
  /// Takes room for so many bytes. Throws std::invalid_argument in one line: what check_writable refuses, a device or a
  /// pipe, no room.
  LargeFile(const std::string& path, std::uint64_t bytes);
  ~LargeFile();
  LargeFile(const LargeFile&) = delete;
  LargeFile& operator=(const LargeFile&) = delete;

  /// Where it is until it takes its place: another name in the same folder, with the same ending.
  std::string temporary() const { return temporary_.string(); }
  /// Throws std::invalid_argument in one line that names the file.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Everything is written and on its disk: the file takes its place. Throws like write.
  void place();

 private:
  std::string path_;
  std::filesystem::path target_, temporary_;
  int fd_ = -1;
};

// Framed binary files, which show whether they are complete.
//
//   8 bytes of magic; u32 version of the format; u32 of the format's own; u64 bytes of the file; its content; u64
//   XXH3-64 of all before it. Little-endian.

struct FramedFormat {
  std::string_view magic;         ///< 8 characters
  std::uint32_t version;          ///< the only one that is written and accepted
  std::string_view kind;          ///< "the answers of a recording"
  std::size_t least_content = 0;  ///< bytes: shorter files are truncated
};

inline constexpr std::size_t frame_header_bytes = 24, frame_trailer_bytes = 8;

/// The file of that content; `word` is the format's own.
std::string framed(const FramedFormat& format, std::uint32_t word, std::string_view content);

/// The content between header and trailer. Throws std::invalid_argument in one line without the file's name if the file
/// is truncated, too long, corrupted, of another format or of another version.
std::string_view unframed(const FramedFormat& format, std::string_view file);

}  // namespace halfulp

// Files in which runs keep their work: regular files, each written by one run at a time.

namespace halfulp::cli {

/// Throws std::invalid_argument with one line unless `path` can be written and is a regular file or does not exist: a
/// pipe or a device keeps nothing. `option` is the option that takes the path.
void check_kept_file(const std::string& option, const std::string& path);

/// Whether two paths lead to one file, which need not exist.
bool same_file(const std::string& a, const std::string& b);

/// An exclusive right to a file among processes that ask for it: a lock on an empty file beside it, ".NAME.lock", which
/// the destructor removes. The lock file of a killed process locks nothing.
class FileLock {
 public:
  enum class IfTaken { wait, refuse };
  /// Throws std::invalid_argument with one line if another process holds the lock and `if_taken` is refuse.
  FileLock(const std::string& path, IfTaken if_taken);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  std::string lock_;
  int fd_ = -1;
};

}  // namespace halfulp::cli

// Opening a file that a user named.

namespace halfulp {

/// The bytes of a file, pipe or device; open_interruptible reads those that may keep a reader waiting. Throws
/// std::invalid_argument in one line that begins with the path. `kind` says what is expected: "a .npy file".
std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind);

/// Throws std::invalid_argument: "NAME: why".
[[noreturn]] void refuse_file(const std::string& name, const std::string& why);

/// Text of a file for one line of a message: at most 40 characters, '?' for each that cannot be printed.
std::string printable(std::string_view text);

}  // namespace halfulp

// The digest of results by which two machines compare: code words, little-endian, as wide as the format's storage, NaN
// canonical; XXH3-64 of each run of 2^24 results in input order (a chunk), XXH3-128 of the chunk digests as
// little-endian words.

namespace halfulp::verify {

inline constexpr std::uint64_t chunk_size = std::uint64_t{1} << 24;

std::uint64_t chunk_digest(std::span<const std::byte> results);
/// 32 hexadecimal digits.
std::string digest(std::span<const std::uint64_t> chunks);

}  // namespace halfulp::verify
