// Binary files that know whether they are whole.
//
//   8 bytes of magic; u32 version of the format; u32 of the format's own; u64 bytes of the file; its content; u64 XXH3-64 of all
//   before it. Little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp {

struct FramedFormat {
  std::string_view magic;       ///< 8 characters
  std::uint32_t version;        ///< the one that is written, and alone accepted
  std::string_view kind;        ///< "the answers of a recording"
  std::size_t least_content = 0;  ///< bytes: shorter files are truncated
};

inline constexpr std::size_t frame_header_bytes = 24, frame_trailer_bytes = 8;

/// The file of that content; `word` is the format's own.
std::string framed(const FramedFormat& format, std::uint32_t word, std::string_view content);

/// What is between header and trailer. Throws std::invalid_argument in one line, without a file's name: truncated, not of this
/// format, of another version, too long, corrupted.
std::string_view unframed(const FramedFormat& format, std::string_view file);

}  // namespace halfulp
