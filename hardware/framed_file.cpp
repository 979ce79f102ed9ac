#include <halfulp/hardware/framed_file.hpp>

#include <halfulp/hardware/verify/digest.hpp>

#include <bit>
#include <cstring>
#include <span>
#include <stdexcept>

namespace halfulp {
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
    fail("format version " + std::to_string(version) + (version > format.version ? ", written by a newer halfulp" : "") +
         "; accepted: " + std::to_string(format.version));
  if (const auto size = at<std::uint64_t>(file, 16); size != file.size())
    fail((size > file.size() ? "truncated: " : "too long: ") + std::to_string(file.size()) + " bytes of " + std::to_string(size));
  const std::size_t end = file.size() - frame_trailer_bytes;
  if (at<std::uint64_t>(file, end) != hash(file.substr(0, end))) fail("corrupted: its checksum is not that of its content");
  return file.substr(frame_header_bytes, end - frame_header_bytes);
}

}  // namespace halfulp
