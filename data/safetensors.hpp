// The format of safetensors files: a header of JSON that says where each tensor's bytes are, and the bytes.
//
//   8 bytes: N, little-endian; N bytes: {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...,
//   "__metadata__": {"KEY": "VALUE"}}, blanks behind it; then the data, to which offsets are relative, without gaps.
//
// Written against the specification (huggingface/safetensors, README.md, "Format") and held to the package of that name
// in the tests. A file that the package refuses is refused here too; so is what the specification forbids and the
// package takes: a name twice, a header that does not begin with '{', a tensor that is no object, control characters in
// names, JSON nested deeper than 64 levels.
#pragma once

#include <halfulp/formats/format.hpp>
#include <halfulp/support/input_file.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// What the elements of a stored tensor are.
struct ElementType {
  std::string_view name;              ///< as safetensors has it: "BF16", "F8_E4M3"
  int bits = 0;                       ///< of an element; those of less than 8 are packed, the first in the lowest bits
  std::optional<FloatFormat> format;  ///< of floats of at most 64 bits; integers, truth values, complex ones have none
};

/// Every dtype of the specification.
std::span<const ElementType> element_types();
/// The one of that name, or nullptr.
const ElementType* find_element_type(std::string_view name);
/// The one with that format. Throws std::logic_error if there is none.
const ElementType& element_type_of(const FloatFormat& format);

/// A tensor in a file.
struct StoredTensor {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<std::uint64_t> shape;  ///< in C order; empty: one element
  std::uint64_t count = 1;           ///< elements
  std::uint64_t offset = 0;          ///< of its first byte in the file
  std::uint64_t bytes = 0;
  std::size_t file = 0;  ///< which of several files (TensorFiles)
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data = 0;  ///< where the data begin
};

/// The largest header that is accepted, as in the package: 100 MB.
inline constexpr std::uint64_t longest_safetensors_header = 100'000'000;

/// A header's text in a file of so many bytes. Throws std::invalid_argument in one line that begins with `name` and
/// says which tensor is wrong: no JSON, a member twice, an unknown dtype, sizes that do not fit, gaps, overlaps, data
/// that are missing or too many, a name with control characters.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::uint64_t file_bytes, const std::string& name);
/// The header of a file; it throws the same.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// The length and the header of a file with these tensors, in this order; `offset` and `bytes` of each are set to where
/// its bytes are to be. Data begin at a multiple of 8 bytes.
std::string safetensors_header(std::span<StoredTensor> tensors, const std::map<std::string, std::string>& metadata);

/// Bytes of so many elements. Nothing if they do not fill whole bytes, or are more than 2^63.
std::optional<std::uint64_t> stored_bytes(const ElementType& type, std::uint64_t count);
/// The product of a shape; nothing if that, or the product of its first extents, is no 64-bit number.
std::optional<std::uint64_t> elements_of(std::span<const std::uint64_t> shape);

/// Whether a name has a control character, such as the end of a line.
bool has_control(std::string_view text);
/// A tensor's name for a message: one line, bounded.
std::string shown_name(std::string_view name);

}  // namespace halfulp
