// Bytes of a file, or what a gzip file (RFC 1952) unpacks to.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <span>
#include <string>

namespace halfulp {

/// Reads a stream; where it begins with 1f 8b, unpacks it by zlib. Memory does not depend on what the file claims. Throws
/// std::invalid_argument in one line that begins with `name`, says what is wrong, and at which byte of the file: truncated or
/// corrupted gzip (its CRC is checked at the end), bytes behind it.
class UnpackingReader {
 public:
  UnpackingReader(std::unique_ptr<std::istream> stream, std::string name);
  ~UnpackingReader();
  UnpackingReader(const UnpackingReader&) = delete;
  UnpackingReader& operator=(const UnpackingReader&) = delete;

  /// Fills `bytes` from the front; returns how many, fewer than wanted only at the end.
  std::size_t read(std::span<char> bytes);
  bool is_gzip() const { return inflater_ != nullptr; }
  /// Bytes that read() gave so far.
  std::uint64_t position() const { return position_; }

 private:
  struct Inflater;
  std::unique_ptr<std::istream> stream_;
  std::string name_;
  std::unique_ptr<Inflater> inflater_;  ///< nothing: the file as it is
  std::string start_;                   ///< of a file that is no gzip: bytes looked at, to be given yet
  std::uint64_t position_ = 0;
};

}  // namespace halfulp
