#include <halfulp/data/layouts.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

std::string type_and_shape(const StoredTensor& t) {
  return fmt::format("{} [{}]", t.type->name, fmt::join(t.shape, ", "));
}

/// The text before a suffix. One that begins with a letter stands behind a '.' or is the whole name.
std::optional<std::string_view> stem_of(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return {};
  name.remove_suffix(suffix.size());
  const bool separates = suffix.empty() || suffix.front() == '_' || suffix.front() == '.' || suffix.front() == ':';
  if (separates ? name.empty() : !name.empty() && name.back() != '.') return {};
  return name;
}

/// Why tensors with the names of a layout are not in it.
struct Misfit {
  std::string why;
};
template <class... T>
[[noreturn]] void misfit(fmt::format_string<T...> text, T&&... values) {
  throw Misfit{fmt::format(text, std::forward<T>(values)...)};
}

/// Finds the encoded tensors of some files.
class Finder {
 public:
  explicit Finder(const TensorFiles& files) : files_(files) {}

  std::vector<EncodedTensor> all() {
    std::vector<EncodedTensor> found;
    for (const StoredTensor& tensor : files_.tensors())
      if (std::optional<EncodedTensor> encoded = find(tensor)) found.push_back(std::move(*encoded));
    return found;
  }

 private:
  [[noreturn]] void refuse(const StoredTensor& tensor, const std::string& why) const {
    refuse_file(files_.files()[tensor.file].path(), fmt::format("tensor {}: {}", shown_name(tensor.name), why));
  }

  std::optional<EncodedTensor> find(const StoredTensor& codes) {
    std::string reasons, unknown;
    for (const StorageLayout& layout : layouts())
      for (const PartNames& names : layout.names) {
        const auto stem = names.scales.empty() ? std::nullopt : stem_of(codes.name, names.codes);
        if (!stem) continue;
        const StoredTensor* const scales = part(*stem, names.scales);
        if (!scales && (layout.type.empty() || layout.codes.packing != Packing::opaque)) continue;
        if (!layout.type.empty() && !is_type(layout, codes, logical(names, *stem))) {
          if (scales) unknown = unknown_type(codes, logical(names, *stem));
          continue;
        }
        if (layout.codes.packing == Packing::opaque)
          refuse(codes, fmt::format("{} stores it as its kernels want it, which is not read here", layout.name));
        if (!has_word(layout.codes.types, codes.type->name) || codes.count == 0) continue;
        try {
          return fit(layout, names, codes, *stem, scales);
        } catch (const Misfit& m) {
          reasons += fmt::format("{}{} has {}", reasons.empty() ? "" : "; ", layout.name, m.why);
        }
      }
    if (!reasons.empty())
      refuse(codes, fmt::format("{} is in no layout of its name: {}", type_and_shape(codes), reasons));
    if (!unknown.empty() && codes.count > 0) refuse(codes, unknown);
    return {};
  }

  const StoredTensor* part(std::string_view stem, std::string_view suffix) const {
    return suffix.empty() ? nullptr : files_.find(fmt::format("{}{}", stem, suffix));
  }

  /// The name of a weight: of torchao's "m._weight" "m.weight".
  static std::string logical(const PartNames& names, std::string_view stem) {
    std::string name(stem);
    if (names.codes == torchao_codes) {
      const std::size_t last = name.rfind('.') + 1;  // 0 if there is none
      if (name[last] == '_') name.erase(last, 1);
    } else if (names.codes.starts_with("weight")) {
      name += "weight";
    }
    return name;
  }

  /// torchao's metadata of a weight, or null.
  const nlohmann::json& metadata_of(const std::string& name) {
    auto found = metadata_.find(name);
    if (found == metadata_.end()) {
      nlohmann::json json;
      if (const auto entry = files_.metadata().find(name); entry != files_.metadata().end())
        json = parse_large_json(entry->second, fmt::format("{}: __metadata__ of {}", files_.path(), shown_name(name)));
      found = metadata_.emplace(name, std::move(json)).first;
    }
    return found->second;
  }

  /// A member of an object, or null; of what torchao writes as an object of type and data the data.
  static nlohmann::json member(const nlohmann::json& json, const char* name) {
    const nlohmann::json value = json.is_object() ? json.value(name, nlohmann::json()) : nlohmann::json();
    return value.is_object() && value.contains("_type") ? value.value("_data", nlohmann::json()) : value;
  }
  static std::string text(const nlohmann::json& json) { return json.is_string() ? json.get<std::string>() : ""; }

  /// Whether the metadata say that a tensor is of a layout's class, and of its elem_dtype if it has one.
  bool is_type(const StorageLayout& layout, const StoredTensor& codes, const std::string& name) {
    const nlohmann::json& entry = metadata_of(name);
    if (text(member(entry, "_type")) != layout.type) return false;
    if (!layout.element_type.empty()) return text(member(member(entry, "_data"), "elem_dtype")) == layout.element_type;
    return layout.codes.packing == Packing::opaque || has_word(layout.codes.types, codes.type->name);
  }

  /// Why code words that torchao's writer wrote are in no layout.
  std::string unknown_type(const StoredTensor& codes, const std::string& name) {
    const nlohmann::json& entry = metadata_of(name);
    const std::string type = text(member(entry, "_type")), element = text(member(member(entry, "_data"), "elem_dtype"));
    if (type.empty()) return fmt::format("__metadata__ does not say what {} is, as torchao's do", shown_name(name));
    return fmt::format("torchao's class {}{}{} of {} is not read here", printable(type), element.empty() ? "" : " of ",
                       printable(element), codes.type->name);
  }

  EncodedTensor fit(const StorageLayout& layout, const PartNames& names, const StoredTensor& codes,
                    std::string_view stem, const StoredTensor* scales) {
    EncodedTensor out;
    out.name = logical(names, stem), out.layout = &layout;
    Decoding& d = out.decoding;
    d.codes = &codes, d.scales = scales, d.element = layout.codes.element, d.zero_use = layout.zeros;
    d.tensor_scale_use = layout.tensor_scale;
    if (!has_word(layout.scales.types, scales->type->name))
      misfit("{} of {}, not {}", shown_name(scales->name), layout.scales.types, scales->type->name);
    d.scale_format = scales->type->format ? *scales->type->format : layout.scales.bytes;
    if (codes.shape.size() < 2) misfit("two axes or more");
    const nlohmann::json data = layout.type.empty() ? nlohmann::json() : member(metadata_of(out.name), "_data");
    set_values(layout, out, stem, data);
    d.rows = out.shape[out.shape.size() - 2], d.columns = out.shape.back();
    out.count = *elements_of(out.shape);
    set_grid(layout, out, data);
    set_tensor_scale(layout, out, part(stem, names.tensor_scale));
    set_zeros(out, part(stem, names.zeros));
    out.format = format_of(layout, d);
    for (const StoredTensor* t : {d.codes, d.scales, d.tensor_scale, d.zeros, d.groups})
      if (t) out.parts.push_back(t);
    if (layout.codes.packing == Packing::words) out.parts.push_back(part(stem, "weight_shape"));
    for (const StoredTensor* t : out.parts) out.bytes += t->bytes;
    return out;
  }

  /// The shape of the values and where their code words are.
  void set_values(const StorageLayout& layout, EncodedTensor& out, std::string_view stem, const nlohmann::json& data) {
    Decoding& d = out.decoding;
    const StoredTensor& codes = *d.codes;
    out.shape = codes.shape;
    if (!d.element.is_integer() && d.element.format == FloatFormat{}) {
      if (layout.codes.packing == Packing::words) return set_words(out, stem);
      if (layout.codes.packing == Packing::affine) set_affine(out);
      else d.element = floats(*codes.type->format);
    }
    if (layout.type == "IntxUnpackedToInt8Tensor") d.element = ints(target_bits(data));
    if (layout.codes.packing == Packing::groups) {
      if (codes.shape.size() < 3 || codes.shape.back() != 16) misfit("groups of 16 bytes as its last axis");
      out.shape.pop_back();
      out.shape.back() *= 16;
    }
    const std::uint64_t bits = static_cast<std::uint64_t>(d.element.bits()),
                        bytes = codes.type->bits / 8 * out.shape.back();
    d.row_bytes = bytes;
    d.step = layout.codes.packing == Packing::bytes || layout.codes.packing == Packing::rows ? 8 : bits;
    if (bytes * 8 % d.step != 0) misfit("rows of whole code words of {} bits", bits);
    out.shape.back() = bytes * 8 / d.step;
    if (layout.codes.packing == Packing::rows)
      d.rows_in_byte = 8 / bits, out.shape[out.shape.size() - 2] *= d.rows_in_byte;
  }

  static int target_bits(const nlohmann::json& data) {
    const std::string name = text(member(data, "target_dtype"));
    for (int bits = 2; bits <= 8; ++bits)
      if (name == fmt::format("int{}", bits)) return bits;
    misfit("a target_dtype of int2 to int8");
  }

  /// compressed-tensors packs into words, and says the shape in a tensor.
  void set_words(EncodedTensor& out, std::string_view stem) const {
    Decoding& d = out.decoding;
    const StoredTensor& codes = *d.codes;
    const StoredTensor* const shape = part(stem, "weight_shape");
    if (!shape || !has_word("I64 I32", shape->type->name) || shape->count != 2 || codes.shape.size() != 2)
      misfit("two axes, and weight_shape of two I64");
    std::vector<std::byte> bytes(shape->bytes);
    files_.read_bytes(*shape, 0, bytes);
    for (std::size_t i = 0; i < 2; ++i) {
      std::uint64_t size = 0;
      std::memcpy(&size, bytes.data() + i * bytes.size() / 2, bytes.size() / 2);
      out.shape[i] = size;
    }
    const std::uint64_t words = codes.shape[1], columns = out.shape[1];
    if (out.shape[0] != codes.shape[0] || columns == 0 || columns > words * 32)
      misfit("a weight_shape [{}, at most {}], not [{}, {}]", codes.shape[0], words * 32, out.shape[0], columns);
    std::vector<std::pair<int, std::uint64_t>> fitting;  // bits, code words in a word if some of its bits are unused
    for (int bits = 2; bits <= 8; ++bits) {
      const auto b = static_cast<std::uint64_t>(bits);
      if (words == ceil_div(columns * b, 32)) fitting.emplace_back(bits, 0);
      // Seven bits, four to a word as of eight: no release before 0.20 is known to have written them.
      if (32 % b != 0 && b != 7 && words == ceil_div(columns, 32 / b)) fitting.emplace_back(bits, 32 / b);
    }
    if (fitting.size() != 1)
      refuse(codes, fmt::format("{} words a row for {} columns fit {} ways to pack 2 to 8 bits; accepted: one", words,
                                columns, fitting.size()));
    d.element = ints(fitting.front().first), d.offset_binary = true, d.in_word = fitting.front().second;
    d.row_bytes = words * 4, d.step = static_cast<std::uint64_t>(d.element.bits());
    d.groups = part(stem, "weight_g_idx");
    if (d.groups && (d.groups->type->name != "I32" || d.groups->shape != std::vector<std::uint64_t>{columns}))
      misfit("weight_g_idx of I32 [{}], not {}", columns, type_and_shape(*d.groups));
  }

  /// MLX packs 2 to 8 bits in groups of 32, 64 or 128, of which rows show only the product.
  void set_affine(EncodedTensor& out) {
    const StoredTensor& codes = *out.decoding.codes;
    const std::vector<std::uint64_t>& scales = out.decoding.scales->shape;
    const std::uint64_t row_bits = codes.shape.back() * 32, groups = scales.empty() ? 0 : scales.back();
    std::vector<std::pair<int, std::uint64_t>> fitting;
    for (const int bits : {2, 3, 4, 5, 6, 8})
      for (const std::uint64_t group : {32u, 64u, 128u})
        if (groups * group * static_cast<std::uint64_t>(bits) == row_bits) fitting.emplace_back(bits, group);
    if (fitting.empty()) misfit("scales [..., groups of 32, 64 or 128]");
    if (const auto said = mlx_bits(codes, out.name)) {
      if (std::find(fitting.begin(), fitting.end(), *said) == fitting.end())
        refuse(codes,
               fmt::format("config.json has {} bits in groups of {}, which do not fit {} and scales {}", said->first,
                           said->second, type_and_shape(codes), type_and_shape(*out.decoding.scales)));
      fitting = {*said};
    }
    if (fitting.size() > 1) {
      std::string choices;
      for (const auto& [bits, group] : fitting)
        choices += fmt::format("{}{} bits in groups of {}", choices.empty() ? "" : ", or ", bits, group);
      refuse(codes, choices +
                        "; accepted: MLX's config.json beside the file, whose member quantization says bits and "
                        "group_size");
    }
    out.decoding.element = {{}, fitting.front().first, 0, IntegerRange::affine_unsigned};
  }

  /// Bits and group size of a weight by config.json beside its file, which has exceptions by modules.
  std::optional<std::pair<int, std::uint64_t>> mlx_bits(const StoredTensor& codes, const std::string& name) {
    const std::string path = fs::path(files_.files()[codes.file].path()).parent_path() / "config.json";
    auto found = configs_.find(path);
    if (found == configs_.end()) {
      nlohmann::json config;
      std::error_code error;
      if (fs::exists(path, error)) {
        const InputFile file(path, "a config.json");
        if (file.size() <= longest_safetensors_header)
          config = parse_large_json(file.text(0, static_cast<std::size_t>(file.size())), path);
      }
      found = configs_.emplace(path, std::move(config)).first;
    }
    const nlohmann::json& config = found->second;
    if (!config.is_object() || !config.contains("quantization") || !config["quantization"].is_object()) return {};
    const nlohmann::json& all = config["quantization"];
    const auto own = all.find(name.substr(0, name.rfind('.')));
    const auto number = [&](const char* member) -> std::uint64_t {
      for (const nlohmann::json* from : {own != all.end() && own->is_object() ? &*own : nullptr, &all})
        if (from && from->contains(member) && (*from)[member].is_number_unsigned())
          return (*from)[member].get<std::uint64_t>();
      return 0;
    };
    const std::uint64_t bits = number("bits"), group = number("group_size");
    if (bits == 0 || bits > 8 || group == 0) return {};
    return std::pair{static_cast<int>(bits), group};
  }

  /// A grid's rows and columns in a matrix, and whether every matrix has its own.
  struct Grid {
    std::uint64_t rows = 1, columns = 1;
    bool one = true;
    bool is_vector = false;  ///< not in the shape of ScaleShape::matrix
  };
  static Grid grid_of(const EncodedTensor& out, const StoredTensor& scales) {
    const Decoding& d = out.decoding;
    std::vector<std::uint64_t> s = scales.shape;
    if (scales.count == 1) return {1, 1, true, s.empty()};
    const std::size_t leading = out.shape.size() - 2;
    bool apart = false;
    if (leading == 0 && s.size() == 4 && s[1] == 1 && s[3] == 1) s = {s[0], s[2]}, apart = true;
    if (s.size() < leading || s.size() > leading + 2 ||
        !std::equal(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(leading), out.shape.begin()))
      misfit("another shape than that of {}, {}", shown_name(scales.name), type_and_shape(scales));
    const bool one = leading == 0;
    if (s.size() == leading) return {1, 1, one, true};
    if (s.size() == leading + 2) return {s[leading], s.back(), one, apart};
    if (s.back() == 1) return {1, 1, one, true};
    const bool of_rows = s.back() == d.rows, of_columns = s.back() == d.columns && leading != 0;
    if (of_rows && of_columns) misfit("{} for either axis of square matrices", shown_name(scales.name));
    if (!of_rows && !of_columns)
      misfit("another shape than that of {}, {}", shown_name(scales.name), type_and_shape(scales));
    return {of_rows ? d.rows : 1, of_rows ? 1 : d.columns, one, true};
  }

  /// The size of blocks of which there are `blocks` along an axis, the last of which may be cut short. Of several sizes
  /// that give this number it is the power of two, as in all published checkpoints.
  static std::uint64_t block_of(std::uint64_t size, std::uint64_t blocks) {
    if (blocks == 0 || blocks > size) misfit("at most {} blocks along an axis, not {}", size, blocks);
    if (blocks == 1) return size;
    for (std::uint64_t block = 1; block < size; block *= 2)
      if (ceil_div(size, block) == blocks) return block;
    if (size % blocks != 0) misfit("{} blocks of one size along an axis of {}", blocks, size);
    return size / blocks;
  }

  void set_grid(const StorageLayout& layout, EncodedTensor& out, const nlohmann::json& data) const {
    Decoding& d = out.decoding;
    std::uint64_t block_rows = layout.scales.block_rows, block_columns = layout.scales.block_columns;
    if (const nlohmann::json block = member(data, "block_size"); block.is_number_unsigned()) {
      block_columns = block.get<std::uint64_t>();
    } else if (block.is_array() && block.size() >= 2) {
      const nlohmann::json &down = block[block.size() - 2], &across = block.back();
      if (down.is_number_unsigned() && across.is_number_unsigned())
        block_rows = down.get<std::uint64_t>(), block_columns = across.get<std::uint64_t>();
    }
    d.transposed = layout.scales.shape == ScaleShape::transposed;
    if (member(data, "is_swizzled_scales") == true) return set_swizzled(out, block_columns);
    if (layout.tensor_scale.use == TensorScale::multiply && layout.type.empty() &&
        has_word(layout.scales.types, "F8_E4M3") &&
        (files_.metadata().contains("_quantization_metadata") || files_.metadata().contains("quantization_config")))
      refuse(*d.codes,
             "NVFP4 of an image model (__metadata__ has a quantization of its own), whose scales may be swizzled "
             "or not; accepted: ModelOpt's export of language models");
    Grid grid;
    if (d.transposed) {
      std::vector<std::uint64_t> wanted = out.shape;
      if (d.scales->shape.size() != wanted.size()) misfit("scales [groups, rows], not {}", type_and_shape(*d.scales));
      wanted[wanted.size() - 2] = d.scales->shape[wanted.size() - 2], wanted.back() = d.rows;
      if (d.scales->shape != wanted) misfit("scales [groups, {}], not {}", d.rows, type_and_shape(*d.scales));
      grid = {d.rows, wanted[wanted.size() - 2], wanted.size() == 2, false};
    } else {
      grid = grid_of(out, *d.scales);
      if (grid.is_vector && layout.scales.shape == ScaleShape::matrix) misfit("scales of as many axes, or [1]");
      if (!grid.is_vector && out.shape.size() == 2 && layout.scales.shape == ScaleShape::vector)
        misfit("scales [] or [{}]", d.rows);
    }
    d.grid_rows = grid.rows, d.grid_columns = grid.columns, d.one_grid = grid.one;
    d.block_rows = block_rows ? block_rows : block_of(d.rows, grid.rows);
    d.block_columns = block_columns ? block_columns : block_of(d.columns, grid.columns);
    // Groups of a row are whole: only blocks of several rows may be cut short.
    if (!block_columns && grid.rows == d.rows && d.columns % grid.columns == 0)
      d.block_columns = d.columns / grid.columns;
    const bool whole = d.block_rows > 1 || d.rows == 1 || d.columns % d.block_columns == 0;
    if (d.block_rows > d.rows || d.block_columns > d.columns) misfit("blocks larger than the weight");
    if (grid.rows != ceil_div(d.rows, d.block_rows) || grid.columns != ceil_div(d.columns, d.block_columns) || !whole)
      misfit("scales for {} x {} blocks of {} x {} values, not {}", ceil_div(d.rows, d.block_rows),
             ceil_div(d.columns, d.block_columns), d.block_rows, d.block_columns, type_and_shape(*d.scales));
  }

  static void set_swizzled(EncodedTensor& out, std::uint64_t block_columns) {
    Decoding& d = out.decoding;
    if (block_columns == 0 || out.shape.size() != 2 || d.columns % block_columns != 0)
      misfit("two axes and whole blocks where scales are swizzled");
    d.swizzled = true, d.block_rows = 1, d.block_columns = block_columns;
    d.grid_rows = d.rows, d.grid_columns = d.columns / block_columns;
    const std::uint64_t count = ceil_div(d.rows, swizzled_rows) * ceil_div(d.grid_columns, swizzled_columns) *
                                swizzled_tile;
    if (d.scales->count != count) misfit("{} swizzled scales, not {}", count, type_and_shape(*d.scales));
  }

  static void set_tensor_scale(const StorageLayout& layout, EncodedTensor& out, const StoredTensor* scale) {
    if (layout.tensor_scale.use == TensorScale::none) return;
    Decoding& d = out.decoding;
    if (!scale && layout.tensor_scale.required) misfit("a scale of the whole tensor, {}", layout.names[0].tensor_scale);
    if (scale && (!scale->type->format || !has_word(any_float, scale->type->name) ||
                  (scale->count != 1 && (d.one_grid || scale->count * d.rows * d.columns != out.count))))
      misfit("{} of one float, or of one for each matrix, not {}", shown_name(scale->name), type_and_shape(*scale));
    d.tensor_scale = scale;
    if (!scale) d.tensor_scale_use = {};
  }

  static void set_zeros(EncodedTensor& out, const StoredTensor* zeros) {
    Decoding& d = out.decoding;
    if (d.zero_use == ZeroUse::none) return;
    const bool adds = d.zero_use == ZeroUse::add;
    if (!zeros && adds) misfit("an offset of each group");
    if (!zeros) return d.zero_use = ZeroUse::none, void();
    d.zeros = zeros;
    if (d.offset_binary && zeros->type->name == "I32") {
      const std::vector<std::uint64_t> wanted{d.in_word ? ceil_div(d.rows, d.in_word) : ceil_div(d.rows * d.step, 32),
                                              d.grid_columns};
      if (zeros->shape != wanted || d.grid_rows != d.rows)
        misfit("{} of I32 [{}], not {}", shown_name(zeros->name), fmt::join(wanted, ", "), type_and_shape(*zeros));
      return;
    }
    if (!has_word(adds ? any_float : std::string_view("I8"), zeros->type->name) || (zeros->shape != d.scales->shape))
      misfit("{} of {} in the shape of the scales, not {}", shown_name(zeros->name), adds ? "floats" : "I8",
             type_and_shape(*zeros));
  }

  static std::string format_of(const StorageLayout& layout, const Decoding& d) {
    std::string element = element_name(d.element);
    if (d.zero_use == ZeroUse::subtract) element = fmt::format("int{}affine", d.element.bits());
    if (d.zero_use == ZeroUse::add)
      element = fmt::format("{}int{}", d.element.range == IntegerRange::full ? "" : "u", d.element.bits());
    std::string shape = fmt::format("{}x{}", d.block_rows, d.block_columns);
    if (layout.scales.block_columns == 0 && layout.codes.packing != Packing::affine) {
      if (d.grid_columns == 1 && d.grid_rows == 1) shape = "tensor";
      else if (d.grid_columns == 1 && d.block_rows == 1) shape = "row";
      else if (d.grid_rows == 1 && d.block_columns == 1) shape = "column";
    }
    const std::string text = fmt::format(
        "{}/{}/{}{}{}", element, shape, format_name(d.scale_format == fp64 ? fp32 : d.scale_format),
        d.tensor_scale ? "/tensor-scale" : "", d.zero_use == ZeroUse::add ? "/offset" : "");
    // A format of the catalogue says how scales are chosen, too. For OCP MX and NVFP4 that is part of the name.
    if (text == "e2m1/1x16/e4m3/tensor-scale") return "nvfp4";
    return shape == "1x32" && d.scale_format == e8m0 ? format_name(parse_block_format(text)) : text;
  }

  const TensorFiles& files_;
  std::map<std::string, nlohmann::json> configs_, metadata_;
};

}  // namespace

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

std::vector<EncodedTensor> find_encoded(const TensorFiles& files) { return Finder(files).all(); }

}  // namespace halfulp
