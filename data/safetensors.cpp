#include <halfulp/data/safetensors.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <stdexcept>
#include <tuple>

namespace halfulp {
namespace {

constexpr std::uint64_t most = std::uint64_t{1} << 63;
constexpr std::uint64_t length_bytes = 8;

// huggingface/safetensors, safetensors/src/tensor.rs, `enum Dtype`
constexpr std::array<ElementType, 22> types{{
    {"F64", 64, fp64},
    {"F32", 32, fp32},
    {"F16", 16, fp16},
    {"BF16", 16, bf16},
    {"F8_E4M3", 8, e4m3},
    {"F8_E5M2", 8, e5m2},
    {"F8_E4M3FNUZ", 8, e4m3fnuz},
    {"F8_E5M2FNUZ", 8, e5m2fnuz},
    {"F8_E8M0", 8, e8m0},
    {"F6_E2M3", 6, e2m3},
    {"F6_E3M2", 6, e3m2},
    {"F4", 4, e2m1},
    {"I64", 64, {}},
    {"I32", 32, {}},
    {"I16", 16, {}},
    {"I8", 8, {}},
    {"U64", 64, {}},
    {"U32", 32, {}},
    {"U16", 16, {}},
    {"U8", 8, {}},
    {"BOOL", 8, {}},
    {"C64", 64, {}},
}};

/// One tensor of a header; its errors name file and tensor.
class TensorEntry {
 public:
  TensorEntry(const std::string& file, const std::string& name, const nlohmann::json& json) : file_(file), json_(json) {
    tensor_.name = name;
  }

  StoredTensor read(std::uint64_t data) {
    if (has_control(tensor_.name)) refuse("its name has a control character");
    if (!json_.is_object()) refuse("is no object; accepted: one of dtype, shape and data_offsets");
    const nlohmann::json& dtype = need("dtype");
    if (!dtype.is_string()) refuse("dtype is no text");
    tensor_.type = find_element_type(dtype.get<std::string>());
    if (!tensor_.type)
      refuse(fmt::format("unknown dtype '{}'; accepted: {}", printable(dtype.get<std::string>()), all_names()));
    const nlohmann::json& shape = need("shape");
    if (!shape.is_array()) refuse("shape is no array");
    for (const nlohmann::json& size : shape) tensor_.shape.push_back(whole(size, "shape"));
    const nlohmann::json& offsets = need("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) refuse("data_offsets is not an array of two numbers");
    const std::uint64_t begin = whole(offsets[0], "data_offsets"), end = whole(offsets[1], "data_offsets");
    if (begin > end) refuse(fmt::format("data_offsets end at {}, before they begin at {}", end, begin));
    const auto count = elements_of(tensor_.shape);
    const auto bytes = count ? stored_bytes(*tensor_.type, *count) : count;
    if (!count) refuse("its shape is impossibly large");
    if (!bytes) refuse(fmt::format("{} elements of {} bits do not fill whole bytes", *count, tensor_.type->bits));
    if (*bytes != end - begin)
      refuse(fmt::format("{} elements of {} take {} bytes, and data_offsets give {}", *count, tensor_.type->name,
                         *bytes, end - begin));
    if (begin > most - data) refuse("data_offsets are beyond any file");
    tensor_.count = *count, tensor_.bytes = *bytes, tensor_.offset = data + begin;
    return tensor_;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    refuse_file(file_, fmt::format("tensor {}: {}", shown_name(tensor_.name), why));
  }

 private:
  static std::string all_names() {
    std::string names;
    for (const ElementType& type : types) names += (names.empty() ? "" : ", ") + std::string(type.name);
    return names;
  }
  const nlohmann::json& need(const char* member) const {
    const auto found = json_.find(member);
    if (found == json_.end()) refuse(fmt::format("{} is missing", member));
    return *found;
  }
  std::uint64_t whole(const nlohmann::json& value, const char* member) const {
    if (!value.is_number_unsigned()) refuse(fmt::format("{} has a number that is not whole, from 0 on", member));
    return value.get<std::uint64_t>();
  }

  const std::string& file_;
  const nlohmann::json& json_;
  StoredTensor tensor_;
};

std::map<std::string, std::string> metadata_of(const nlohmann::json& json, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (json.is_null()) return metadata;  // as MLX writes it (mlx/io/safetensors.cpp)
  if (!json.is_object()) refuse_file(name, "__metadata__ is no object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) refuse_file(name, fmt::format("__metadata__ '{}' is no text", printable(key)));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

void check_gaps(const SafetensorsHeader& header, std::uint64_t file_bytes, const std::string& name) {
  std::uint64_t end = header.data;
  const StoredTensor* last = nullptr;
  for (const StoredTensor& t : header.tensors) {
    if (t.offset < end)
      refuse_file(name, fmt::format("tensors {} and {} overlap", shown_name(last->name), shown_name(t.name)));
    if (t.offset > end)
      refuse_file(name,
                  fmt::format("{} bytes before tensor {} belong to no tensor", t.offset - end, shown_name(t.name)));
    end = t.offset + t.bytes, last = &t;
  }
  if (end > file_bytes)
    refuse_file(name, fmt::format("truncated: tensor {} ends at byte {}, the file at byte {}", shown_name(last->name),
                                  end, file_bytes));
  if (end < file_bytes)
    refuse_file(name, fmt::format("trailing garbage: {} bytes after the last tensor", file_bytes - end));
}

}  // namespace

std::span<const ElementType> element_types() { return types; }

const ElementType* find_element_type(std::string_view name) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const ElementType& t) { return t.name == name; });
  return found == types.end() ? nullptr : &*found;
}

const ElementType& element_type_of(const FloatFormat& format) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const ElementType& t) { return t.format == format; });
  if (found == types.end()) throw std::logic_error("safetensors has no dtype of " + format_name(format));
  return *found;
}

std::optional<std::uint64_t> elements_of(std::span<const std::uint64_t> shape) {
  // From the first extent on, and so that a 0 behind sizes that overflow does not help: as the package does.
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (count != 0 && size > std::numeric_limits<std::uint64_t>::max() / count) return {};
    count *= size;
  }
  return count;
}

std::optional<std::uint64_t> stored_bytes(const ElementType& type, std::uint64_t count) {
  const auto bits = static_cast<std::uint64_t>(type.bits);
  if (count > most / bits || count * bits % 8 != 0) return {};
  return count * bits / 8;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); });
}

std::string shown_name(std::string_view name) {
  std::string out = "'";
  for (const char c : name.substr(0, 120)) out += std::iscntrl(static_cast<unsigned char>(c)) ? '?' : c;
  return out + (name.size() > 120 ? "...'" : "'");
}

SafetensorsHeader parse_safetensors_header(const std::string& text, std::uint64_t file_bytes, const std::string& name) {
  if (text.empty() || text.front() != '{') refuse_file(name, "the header does not begin with '{'");
  const nlohmann::json json = parse_large_json(text, name + ": the header");
  SafetensorsHeader header;
  header.data = length_bytes + text.size();
  for (const auto& [key, value] : json.items()) {
    if (key == "__metadata__") header.metadata = metadata_of(value, name);
    else header.tensors.push_back(TensorEntry(name, key, value).read(header.data));
  }
  // Of tensors without bytes at the same place the order of names decides.
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_gaps(header, file_bytes, name);
  return header;
}

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  if (file.size() < length_bytes)
    refuse_file(file.path(), fmt::format("{} bytes, not a .safetensors file (its first 8 are a length)", file.size()));
  std::uint64_t length = 0;
  const std::string first = file.text(0, length_bytes);
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<unsigned char>(first[i]);
  if (length > longest_safetensors_header)
    refuse_file(file.path(), fmt::format("a header of {} bytes; accepted: a .safetensors file, with at most {}", length,
                                         longest_safetensors_header));
  if (length > file.size() - length_bytes)
    refuse_file(file.path(), fmt::format("truncated: a header of {} bytes in a file of {}", length, file.size()));
  return parse_safetensors_header(file.text(length_bytes, length), file.size(), file.path());
}

std::string safetensors_header(std::span<StoredTensor> tensors, const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto member = [&](const std::string& name, const Json& value) {
    text += (text.size() > 1 ? "," : "") + Json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) member("__metadata__", metadata);
  std::uint64_t at = 0;
  for (StoredTensor& t : tensors) {
    t.offset = at, at += t.bytes;
    member(t.name, {{"dtype", t.type->name}, {"shape", t.shape}, {"data_offsets", {t.offset, at}}});
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out;
  for (std::uint64_t i = 0, length = text.size(); i < length_bytes; ++i)
    out += static_cast<char>(length >> (8 * i) & 255);
  for (StoredTensor& t : tensors) t.offset += out.size() + text.size();
  return out + text;
}

}  // namespace halfulp
