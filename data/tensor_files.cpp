#include <halfulp/data/tensor_files.hpp>

#include <halfulp/data/npy.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/packed.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <set>
#include <stdexcept>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

constexpr const char* file_kind = "a .safetensors file";
constexpr std::string_view index_ending = ".safetensors.index.json";

static_assert(std::endian::native == std::endian::little, "elements are little-endian, and are read as they are");

/// Refuses what people take for a checkpoint of this kind, with what makes one of it.
void check_kind(const InputFile& file) {
  const std::string first = file.text(0, static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), 9)));
  if (first.size() == 9 && first.back() == '{') return;  // a header; its length may look like anything
  const auto convert = [&](const std::string& what) {
    refuse_file(file.path(), what +
                                 ", which is a program as much as data; accepted: .safetensors. Convert it with "
                                 "safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)");
  };
  if (first.starts_with("PK")) convert("a zip archive, as torch.save writes it around a pickle");
  if (first.size() > 1 && first[0] == '\x80' && first[1] >= 2 && first[1] <= 5) convert("a pickle");
  if (first.starts_with("GGUF"))
    refuse_file(file.path(), "a GGUF file, whose formats are of its own; accepted: .safetensors, .npy");
}

/// The files of a folder with an ending, sorted.
std::vector<std::string> files_in(const std::string& folder, std::string_view ending) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.ends_with(ending) && !name.starts_with('.'))
      found.push_back(entry->path().string());
  if (error) refuse_file(folder, "cannot be read: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

/// "weight_map" of an index: the file of each tensor.
std::map<std::string, std::string> weight_map(const std::string& path) {
  const InputFile file(path, "an index of shards");
  if (file.size() > longest_safetensors_header)
    refuse_file(path,
                fmt::format("{} bytes; accepted: an index of at most {}", file.size(), longest_safetensors_header));
  const nlohmann::json json = parse_large_json(file.text(0, static_cast<std::size_t>(file.size())), path);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse_file(path,
                "no object with the member weight_map, which is one too; accepted: an index of shards as "
                "transformers writes it");
  std::map<std::string, std::string> map;
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    const std::string name = shard.is_string() ? shard.get<std::string>() : "";
    if (name.empty() || name != fs::path(name).filename().string() || name == "." || name == ".." || has_control(name))
      refuse_file(path, fmt::format("tensor {}: its file is {}; accepted: the name of a file beside the index",
                                    shown_name(tensor), printable(shard.dump())));
    map[tensor] = name;
  }
  if (map.empty()) refuse_file(path, "weight_map names no tensor");
  return map;
}

}  // namespace

TensorFiles::TensorFiles(const std::string& path) : path_(path) {
  std::error_code error;
  if (fs::is_directory(path, error)) add_folder(path);
  else add_file(path);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (const auto [other, is_new] = by_name_.emplace(tensors_[i].name, i); !is_new)
      refuse_file(path, fmt::format("tensor {} is in {} and in {}", shown_name(tensors_[i].name),
                                    files_[tensors_[other->second].file].path(), files_[tensors_[i].file].path()));
}

void TensorFiles::add_file(const std::string& path) {
  if (path.ends_with(index_ending)) add_index(path);
  else if (path.ends_with(".npy")) add_npy(path);
  else add_safetensors(path);
}

void TensorFiles::add_safetensors(const std::string& path) {
  InputFile file(path, file_kind);
  check_kind(file);
  SafetensorsHeader header = read_safetensors_header(file);
  for (StoredTensor& tensor : header.tensors) {
    tensor.file = files_.size();
    tensors_.push_back(std::move(tensor));
  }
  metadata_.insert(header.metadata.begin(), header.metadata.end());
  files_.push_back(std::move(file));
}

void TensorFiles::add_npy(const std::string& path) {
  InputFile file(path, "a .npy file");
  const NpyReader reader(path);
  const NpyHeader& header = reader.header();
  if (header.fortran_order && header.shape.size() > 1)
    refuse_file(path, "in Fortran order; accepted: C order, as numpy.save(FILE, numpy.ascontiguousarray(x)) writes it");
  StoredTensor tensor;
  tensor.name = fs::path(path).stem().string();
  if (has_control(tensor.name)) refuse_file(shown_name(path), "its name has a control character");
  tensor.type = &element_type_of(header.format);
  tensor.shape = header.shape, tensor.count = header.count;
  tensor.offset = reader.data_offset();
  tensor.bytes = header.count * static_cast<std::uint64_t>(header.format.storage_bytes());
  tensor.file = files_.size();
  tensors_.push_back(std::move(tensor));
  files_.push_back(std::move(file));
}

void TensorFiles::add_index(const std::string& path) {
  index_ = path;
  const std::map<std::string, std::string> map = weight_map(path);
  const fs::path folder = fs::path(path).parent_path();
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) shards.insert(shard);
  std::map<std::string, std::string> found;
  for (const std::string& shard : shards) {
    const std::string file = folder / shard;
    std::error_code error;
    if (!fs::exists(file, error)) {
      const auto first = std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.second == shard; });
      refuse_file(path, fmt::format("tensor {} is in {}, which is not there", shown_name(first->first), shard));
    }
    const std::size_t before = tensors_.size();
    add_safetensors(file);
    for (std::size_t i = before; i < tensors_.size(); ++i) found.emplace(tensors_[i].name, shard);
  }
  for (const auto& [tensor, shard] : map)
    if (const auto there = found.find(tensor); there == found.end() || there->second != shard)
      refuse_file(path, fmt::format("tensor {} is not in {}, where the index has it", shown_name(tensor), shard));
}

void TensorFiles::add_folder(const std::string& path) {
  const auto indices = files_in(path, index_ending), models = files_in(path, ".safetensors");
  if (indices.size() == 1) return add_index(indices.front());
  if (indices.size() > 1)
    refuse_file(path, fmt::format("{} indices of shards, {} and {} among them; accepted: one of them by its name",
                                  indices.size(), fs::path(indices[0]).filename().string(),
                                  fs::path(indices[1]).filename().string()));
  if (models.size() == 1) return add_safetensors(models.front());
  if (models.size() > 1)
    refuse_file(path, fmt::format("{} .safetensors files and no index; accepted: one of them by its name, such as {}",
                                  models.size(), fs::path(models[0]).filename().string()));
  for (const std::string& file : files_in(path, ".npy")) add_npy(file);
  if (files_.empty()) refuse_file(path, "a folder without .safetensors and .npy files");
}

std::vector<std::string> TensorFiles::paths() const {
  std::vector<std::string> all;
  if (!index_.empty()) all.push_back(index_);
  for (const InputFile& file : files_) all.push_back(file.path());
  return all;
}

const StoredTensor* TensorFiles::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void TensorFiles::read_bytes(const StoredTensor& tensor, std::uint64_t first, std::span<std::byte> bytes) const {
  files_[tensor.file].read(tensor.offset + first, bytes);
}

void TensorFiles::check_unchanged() const {
  for (const InputFile& file : files_) file.check_unchanged();
}

void narrow_doubles(std::span<const double> numbers, RoundingMode mode, std::span<float> floats) {
  Rounding rounding;
  rounding.mode = mode;
  std::vector<std::uint32_t> codes(numbers.size());
  encode<double, std::uint32_t>(fp32, rounding, numbers, codes);
  std::transform(codes.begin(), codes.end(), floats.begin(),
                 [](std::uint32_t code) { return std::bit_cast<float>(code); });
}

void TensorFiles::read(const StoredTensor& tensor, std::uint64_t first, std::span<float> values,
                       RoundingMode doubles) const {
  const ElementType& type = *tensor.type;
  if (!type.format) throw std::logic_error(tensor.name + ": " + std::string(type.name) + " is no format of floats");
  const auto bits = static_cast<std::size_t>(type.bits);
  const std::uint64_t begin = first * bits / 8;
  if (*type.format == fp32) return read_bytes(tensor, begin, std::as_writable_bytes(values));
  if (*type.format == fp64) {
    std::vector<double> wide(values.size());
    read_bytes(tensor, begin, std::as_writable_bytes(std::span(wide)));
    return narrow_doubles(wide, doubles, values);
  }
  std::vector<std::uint16_t> codes(values.size());
  read_codes(tensor, first, codes);
  decode<std::uint16_t>(*type.format, codes, values);
}

void TensorFiles::read_codes(const StoredTensor& tensor, std::uint64_t first, std::span<std::uint16_t> codes) const {
  const auto bits = static_cast<std::size_t>(tensor.type->bits);
  if (bits > 16) throw std::logic_error(tensor.name + ": more than 16 bits an element");
  if (bits == 16) return read_bytes(tensor, 2 * first, std::as_writable_bytes(codes));
  const std::size_t before = bits < 8 ? first % 8 : 0,
                    count = before + codes.size();  // eight elements fill whole bytes
  std::vector<std::uint8_t> bytes((count * bits + 7) / 8);
  read_bytes(tensor, (first - before) * bits / 8, std::as_writable_bytes(std::span(bytes)));
  if (bits < 8) bytes = unpack_codes(bytes, count, tensor.type->bits);
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(before), bytes.end(), codes.begin());
}

}  // namespace halfulp
