// The user's own tensor: NumPy's .npy files, read as a stream and written whole.
#pragma once

#include <halfulp/formats/format.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace halfulp {

/// What the header of a .npy file says.
struct NpyHeader {
  FloatFormat format;  ///< fp16, fp32 or fp64
  std::vector<std::uint64_t> shape;
  bool fortran_order = false;
  std::uint64_t count = 1;  ///< elements: the product of the shape, 1 for a 0-d array
};

/// A little-endian float16, float32 or float64 tensor of any shape, in file order, never whole in memory.
/// Format versions 1.0, 2.0 and 3.0 (NumPy Enhancement Proposal 1; numpy.lib.format). Everything else, and a file
/// whose length is not what its header promises, is std::invalid_argument in one line that names the file and why.
class NpyReader {
 public:
  explicit NpyReader(const std::string& path);
  /// `name` is what error messages call the stream.
  NpyReader(std::unique_ptr<std::istream> stream, std::string name);

  const NpyHeader& header() const { return header_; }
  /// Where the elements begin, in bytes; 0 in a pipe.
  std::uint64_t data_offset() const { return data_; }
  /// Fills `codes` from the front with the next code words of header().format; returns how many, 0 at the end.
  std::size_t read(std::span<std::uint64_t> codes);

 private:
  void check_length();

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  NpyHeader header_;
  std::uint64_t done_ = 0, data_ = 0;
};

/// As Python writes a tuple: "()", "(3,)", "(2, 3)".
std::string shape_text(std::span<const std::uint64_t> shape);

/// The type as NumPy spells it in a header.
template <class T>
constexpr std::string_view npy_descr() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return "|u1";
  else if constexpr (std::is_same_v<T, std::uint16_t>) return "<u2";
  else if constexpr (std::is_same_v<T, std::uint32_t>) return "<u4";
  else if constexpr (std::is_same_v<T, std::uint64_t>) return "<u8";
  else if constexpr (std::is_same_v<T, std::int16_t>) return "<i2";
  else if constexpr (std::is_same_v<T, float>) return "<f4";
  else if constexpr (std::is_same_v<T, double>) return "<f8";
}

/// A .npy file of format version 1.0: the type as NumPy spells it ("<f4", "|u1"), a shape in C order, the elements'
/// bytes.
std::string npy_bytes(std::string_view descr, std::span<const std::uint64_t> shape, std::string_view data);
/// Its beginning, with room for so many bytes of elements.
std::string npy_start(std::string_view descr, std::span<const std::uint64_t> shape, std::size_t bytes);

/// The file of values that are converted to T: as convert() says, or by a cast.
template <class T, class Values, class Convert>
std::string npy_of(std::span<const std::uint64_t> shape, const Values& values, const Convert& convert) {
  static_assert(std::endian::native == std::endian::little, "elements are little-endian");
  std::string file = npy_start(npy_descr<T>(), shape, values.size() * sizeof(T));
  std::size_t at = file.size();
  file.resize(at + values.size() * sizeof(T));
  for (const auto& value : values) {
    const T converted = convert(value);
    std::memcpy(file.data() + at, &converted, sizeof(T));
    at += sizeof(T);
  }
  return file;
}
template <class T, class Values>
std::string npy_of(std::span<const std::uint64_t> shape, const Values& values) {
  return npy_of<T>(shape, values, [](const auto& value) { return static_cast<T>(value); });
}

/// A file of floats, bit for bit, that is there whole or not at all (write_file, whose errors these are).
void write_npy(const std::string& path, std::span<const std::uint64_t> shape, std::span<const float> values);

}  // namespace halfulp
