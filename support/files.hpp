// Files that are there whole or not at all.
#pragma once

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

/// Throws std::invalid_argument with one line if a file at `path` could not be written now (no such directory, no
/// permission, a directory in its place, links that lead in a circle). Leaves nothing behind.
void check_writable(const std::string& path);

/// What a path leads to: of a link its target, be it there or not, since links stay and their targets are written.
/// Devices keep their name. Throws std::invalid_argument for links that lead in a circle.
std::filesystem::path written_path(const std::string& path);

/// Writes `text` to `path`: into a temporary file beside it, renamed into place once it is complete. A path that is not
/// a regular file (a device, a pipe) is written directly; of a link the target is written, even if it is not there yet.
/// Throws std::invalid_argument with one line (a full disk, ...); the file that was there before is then untouched.
void write_file(const std::string& path, std::string_view text);

/// A path, and what is to be there.
using FileText = std::pair<std::string, std::string>;

/// Writes several files, or none: all are complete beside their places before the first is renamed into its own, and
/// where one cannot be, those before it are as they were. (Devices are written before that, and keep what they were
/// given.)
void write_files(const std::vector<FileText>& files);

// Binary files that know whether they are whole.
//
//   8 bytes of magic; u32 version of the format; u32 of the format's own; u64 bytes of the file; its content; u64
//   XXH3-64 of all before it. Little-endian.

struct FramedFormat {
  std::string_view magic;         ///< 8 characters
  std::uint32_t version;          ///< the one that is written, and alone accepted
  std::string_view kind;          ///< "the answers of a recording"
  std::size_t least_content = 0;  ///< bytes: shorter files are truncated
};

inline constexpr std::size_t frame_header_bytes = 24, frame_trailer_bytes = 8;

/// The file of that content; `word` is the format's own.
std::string framed(const FramedFormat& format, std::uint32_t word, std::string_view content);

/// What is between header and trailer. Throws std::invalid_argument in one line, without a file's name: truncated, not
/// of this format, of another version, too long, corrupted.
std::string_view unframed(const FramedFormat& format, std::string_view file);

}  // namespace halfulp

// Files in which runs keep what they did: regular files, written by one run at a time.

namespace halfulp::cli {

/// Throws std::invalid_argument with one line unless `path` is a regular file, or nothing yet, that can be written: a
/// pipe or a device keeps nothing. `option` is what the user gave it to.
void check_kept_file(const std::string& option, const std::string& path);

/// Whether two paths lead to one file, be it there or not.
bool same_file(const std::string& a, const std::string& b);

/// The right to a file, against every other process that asks for it: a lock on an empty file beside it, ".NAME.lock",
/// which is removed with it. What a killed process leaves of it locks nothing.
class FileLock {
 public:
  enum class IfTaken { wait, refuse };
  /// Throws std::invalid_argument with one line if the file is another's and one does not want to wait.
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

/// The file, pipe or device of that path, in bytes; what may keep its reader waiting is read by open_interruptible.
/// Throws std::invalid_argument in one line that begins with the path. `kind` is what it should be: "a .npy file".
std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind);

/// Text of a file fit for one line of a message: at most 40 characters, '?' for what cannot be printed.
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
