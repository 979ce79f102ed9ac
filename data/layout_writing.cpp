#include <halfulp/data/layout_writing.hpp>

#include <halfulp/emulation/block/packed.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::array<std::string_view, 6> writers{"compressed-tensors", "modelopt", "torchao", "mlx",
                                                  "deepseek",           "gpt-oss"};

/// Why a layout is out of the question.
constexpr const char *unwritten = "no writing", *other_elements = "other elements";

/// Whether a layout's name has a writer's, in any case.
bool is_of(const StorageLayout& layout, std::string_view writer) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  // (Clang 14 does not compile std::ranges::search of libstdc++.)
  return std::search(layout.name.begin(), layout.name.end(), writer.begin(), writer.end(), same) != layout.name.end();
}

/// Whether the dtype says what code words are.
bool by_dtype(const CodeForm& codes) { return codes.element == BlockElement{} && codes.packing != Packing::words; }

/// Whether an element is one that a layout's code words can be.
bool holds(const CodeForm& codes, const BlockElement& e) {
  if (e.is_integer() && (e.fraction_bits != 0 || e.range == IntegerRange::affine_unsigned)) return false;
  if (codes.packing == Packing::words) return e.is_integer();
  if (codes.element.is_integer())
    return e.is_integer() && (e.integer_bits == codes.element.integer_bits || codes.packing == Packing::bytes);
  if (e.is_integer()) return false;
  if (!by_dtype(codes)) return e.format == codes.element.format;
  return std::ranges::any_of(
      element_types(), [&](const ElementType& t) { return has_word(codes.types, t.name) && t.format == e.format; });
}

/// The dtype of scales of a format in a layout, or nullptr. Where bytes without a type stand for the format they are
/// taken, but torchao has a class for each.
const ElementType* scale_type(const StorageLayout& layout, const FloatFormat& format) {
  const ElementType *bytes = nullptr, *own = nullptr;
  for (const ElementType& t : element_types()) {
    if (!has_word(layout.scales.types, t.name)) continue;
    if (t.format == format) own = &t;
    else if (t.name == "U8" && layout.scales.bytes == format) bytes = &t;
  }
  return bytes && (!own || (layout.type.empty() && layout.scales.types.starts_with("U8"))) ? bytes : own;
}

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// What a layout keeps of the scale of the whole tensor.
float stored_tensor_scale(const StorageLayout& layout, float tensor_scale, float amax) {
  if (layout.tensor_scale.over != 1) return amax;
  return layout.tensor_scale.use == TensorScale::divide ? 1 / tensor_scale : tensor_scale;
}

}  // namespace

float scale_as_read(const StorageLayout& layout, float of_block, float tensor_scale, float amax) {
  const float t = stored_tensor_scale(layout, tensor_scale, amax) / layout.tensor_scale.over;
  return layout.tensor_scale.use == TensorScale::divide ? of_block / t : of_block * t;
}

std::span<const std::string_view> layout_writers() { return writers; }

EncodedWeight::EncodedWeight(std::string_view writer, const std::string& name, const std::vector<std::uint64_t>& shape,
                             const BlockFormat& format, const FloatFormat& original)
    : name_(name), shape_(shape), format_(format), original_(original) {
  if (std::ranges::find(writers, writer) == writers.end())
    throw std::invalid_argument(unknown_name("layout", std::string(writer), {writers.begin(), writers.end()}));
  std::string reasons, has;
  for (const StorageLayout& layout : layouts()) {
    if (!is_of(layout, writer)) continue;
    const std::string why = misfit(writer, layout);
    if (why.empty()) return;
    if (why == unwritten) continue;
    has += fmt::format("{}{}", has.empty() ? "" : ", ", layout.name);
    if (why != other_elements) reasons += fmt::format("{}{} wants {}", reasons.empty() ? "" : "; ", layout.name, why);
  }
  throw std::invalid_argument(fmt::format(
      "tensor {} [{}] as {}: {}", shown_name(name), fmt::join(shape, ", "), format_name(format),
      reasons.empty() ? fmt::format("{} has no layout of such elements; it has {}", writer, has) : reasons));
}

/// Why the weight cannot be in a layout; empty, and everything set, if it can.
std::string EncodedWeight::misfit(std::string_view writer, const StorageLayout& layout) {
  const ScaleForm& scales = layout.scales;
  const Packing packing = layout.codes.packing;
  const bool affine = format_.element.is_affine(), words = packing == Packing::words;
  if (packing == Packing::opaque || packing == Packing::affine || packing == Packing::rows ||
      layout.zeros == ZeroUse::add)
    return unwritten;
  if (!holds(layout.codes, format_.element) || (affine && layout.zeros != ZeroUse::subtract)) return other_elements;
  scale_type_ = scale_type(layout, format_.scale);
  if (!scale_type_)
    return fmt::format("scales of {}{}", scales.types,
                       scales.bytes == FloatFormat{} ? "" : fmt::format(" ({})", format_name(scales.bytes)));
  const std::size_t down = format_.rows, across = format_.columns;
  if ((scales.block_rows && scales.block_rows != down) || (scales.block_columns && scales.block_columns != across))
    return fmt::format("blocks of {}x{}", scales.block_rows, scales.block_columns);
  if (down == 0 && across != 0) return "blocks that are no columns";
  if (scales.shape == ScaleShape::vector && down == 1 && across != 0)
    return "one scale for a row, or blocks of several rows";
  if (words && down != 1 && down != 0) return "blocks of one row";
  if (down > 1 && (!std::has_single_bit(down) || !std::has_single_bit(across)))
    return "blocks whose sides are powers of two, by which readers recognise them";
  if (format_.tensor_scale ? layout.tensor_scale.use == TensorScale::none
                           : layout.tensor_scale.use != TensorScale::none && layout.tensor_scale.required)
    return format_.tensor_scale ? "no tensor scale" : "a tensor scale";
  if (shape_.size() != 2 && (shape_.size() != 3 || words))
    return words ? "two axes" : "two axes, or three of which the first counts matrices";
  if (scales.shape == ScaleShape::vector && shape_.size() == 3 && (down || across))
    return "two axes, or one scale for all";  // of three axes it is not clear which one a vector is for
  if (packing == Packing::groups && shape_.size() != 3) return "three axes, of which the first counts experts";
  if (writer == "mlx" && format_.tensor_scale && shape_.size() == 2)
    return "no tensor scale but of experts; accepted: e2m1/1x16/e4m3";
  matrices_ = shape_.size() == 3 ? shape_[0] : 1, rows_ = shape_[shape_.size() - 2], columns_ = shape_.back();
  if (matrices_ == 0 || rows_ == 0 || columns_ == 0) return "at least one value";
  block_rows_ = down ? std::min<std::uint64_t>(down, rows_) : rows_;
  block_columns_ = across ? std::min<std::uint64_t>(across, columns_) : columns_;
  // Readers of layouts with blocks of one size take rows that are too short for one as damaged.
  if (down == 1 && columns_ % (scales.block_columns ? scales.block_columns : block_columns_) != 0)
    return fmt::format("whole blocks, and {} columns have a shorter one", columns_);
  grid_rows_ = ceil_div(rows_, block_rows_), grid_columns_ = ceil_div(columns_, block_columns_);
  if (!set_names(layout, name_))
    return layout.type.empty() ? "a name that ends in weight" : "a name of two parts, module.weight";

  const auto bits = static_cast<std::uint64_t>(format_.element.bits());
  const std::uint64_t step = packing == Packing::bytes ? 8 : bits, code_bits = columns_ * step;
  for (const ElementType& t : element_types())
    if (has_word(layout.codes.types, t.name) && (!by_dtype(layout.codes) || t.format == format_.element.format)) {
      code_type_ = &t;
      break;
    }
  row_bytes_ = words ? ceil_div(code_bits, 32) * 4 : code_bits / 8;
  layout_ = &layout;

  std::vector<std::uint64_t> stored = shape_;
  stored.back() = row_bytes_ * 8 / static_cast<std::uint64_t>(code_type_->bits);
  if (packing == Packing::groups) stored.back() /= 16, stored.push_back(16);
  add(names_.codes, *code_type_, stored);
  add(names_.scales, *scale_type_, scales_shape());
  if (format_.tensor_scale) {
    tensor_scale_part_ = parts_.size();
    add(names_.tensor_scale, element_type_of(fp32),
        writer == "compressed-tensors" ? std::vector<std::uint64_t>{1} : std::vector<std::uint64_t>{});
  }
  if (affine || layout.type == "Int8Tensor" || layout.type == "IntxUnpackedToInt8Tensor") {
    zeros_part_ = parts_.size();
    if (words && down == 1) {
      zeros_.resize(rows_ * grid_columns_);
      add(names_.zeros, *find_element_type("I32"), {ceil_div(rows_ * bits, 32), grid_columns_});
    } else {
      add(names_.zeros, *find_element_type("I8"), scales_shape());
    }
  }
  if (words) {
    shape_part_ = parts_.size();
    add("weight_shape", *find_element_type("I64"), {2});
  }
  return {};
}

/// The stem of the names of a weight's parts, as find_encoded takes it off again.
bool EncodedWeight::set_names(const StorageLayout& layout, const std::string& name) {
  for (const PartNames& names : layout.names) {
    // ModelOpt has names without "weight" where several matrices are one tensor.
    if (names.scales.empty() || (names.codes.empty() && names.scales == "_weight_scale" && shape_.size() == 2))
      continue;
    names_ = names;
    if (!layout.type.empty()) {
      const std::size_t dot = name.rfind('.');
      if (dot == std::string::npos || dot + 1 == name.size()) return false;
      stem_ = name.substr(0, dot + 1) + "_" + name.substr(dot + 1);
      return true;
    }
    if (!names.codes.starts_with("weight")) return stem_ = name, true;
    if (name == "weight" || name.ends_with(".weight"))
      return stem_ = name.substr(0, name.size() - std::string_view("weight").size()), true;
  }
  return false;
}

void EncodedWeight::add(std::string_view suffix, const ElementType& type, std::vector<std::uint64_t> shape) {
  StoredTensor part{stem_ + std::string(suffix), &type, std::move(shape)};
  part.count = *elements_of(part.shape);
  part.bytes = *stored_bytes(type, part.count);
  parts_.push_back(std::move(part));
}

std::vector<std::uint64_t> EncodedWeight::scales_shape() const {
  const ScaleShape shape = layout_->scales.shape;
  // Where there is one scale, readers of vectors want no axis.
  const bool tensor = (format_.rows == 0 && format_.columns == 0) ||
                      (layout_->scales.shape == ScaleShape::vector && matrices_ * grid_rows_ * grid_columns_ == 1);
  const bool row = format_.rows == 1 && format_.columns == 0;
  std::vector<std::uint64_t> out(shape_.begin(), shape_.end() - 2);
  const auto with = [&](std::initializer_list<std::uint64_t> last) { return out.insert(out.end(), last), out; };
  if (tensor && shape == ScaleShape::matrix) return {1};
  if (tensor && layout_->type.empty()) return {};
  if (tensor) return std::vector<std::uint64_t>(shape_.size(), 1);
  if (shape != ScaleShape::vector) return with({grid_rows_, grid_columns_});
  if (row) return with({rows_});
  return with({grid_rows_, 1, grid_columns_, 1});
}

std::vector<std::byte> EncodedWeight::packed_row(std::span<const std::uint8_t> codes) const {
  const int bits = format_.element.bits();
  std::vector<std::uint8_t> bytes(codes.begin(), codes.end());
  if (layout_->codes.packing == Packing::words)
    for (std::uint8_t& code : bytes) code ^= static_cast<std::uint8_t>(1u << (bits - 1));
  if (layout_->codes.packing != Packing::bytes) {
    bytes = pack_codes(bytes, bits);
  } else if (format_.element.is_integer()) {
    for (std::uint8_t& code : bytes) code = static_cast<std::uint8_t>(format_.element.integer(code));
  }
  bytes.resize(row_bytes_);
  const auto raw = std::as_bytes(std::span(bytes));
  return {raw.begin(), raw.end()};
}

std::vector<EncodedWeight::Piece> EncodedWeight::pieces(const BlockArray& rows, std::uint64_t first) {
  Piece codes{0, first * row_bytes_, {}};
  for (std::size_t r = 0; r < rows.rows; ++r) {
    const auto row = packed_row(std::span(rows.codes).subspan(r * rows.columns, rows.columns));
    codes.bytes.insert(codes.bytes.end(), row.begin(), row.end());
  }
  std::vector<Piece> out{std::move(codes)};
  const bool one = format_.rows == 0 && format_.columns == 0;
  if (one && first != 0) return out;  // all parts have the same
  const std::uint64_t grid_row = first / rows_ * grid_rows_ + first % rows_ / block_rows_,
                      at = grid_row * grid_columns_;
  Piece scales{1, at * static_cast<std::uint64_t>(scale_type_->bits) / 8, {}};
  for (const std::uint32_t code : rows.scales)
    for (int byte = 0; byte < scale_type_->bits / 8; ++byte)
      scales.bytes.push_back(std::byte(code >> (8 * byte) & 255));
  out.push_back(std::move(scales));
  if (!zeros_part_) return out;
  Piece zeros{zeros_part_, at, std::vector<std::byte>(rows.scales.size())};
  for (std::size_t i = 0; i < rows.zeros.size(); ++i)
    if (zeros_.empty()) zeros.bytes[i] = static_cast<std::byte>(rows.zeros[i]);
    else zeros_[at + i] = static_cast<std::uint8_t>(rows.zeros[i]);
  if (zeros_.empty()) out.push_back(std::move(zeros));
  return out;
}

std::vector<EncodedWeight::Piece> EncodedWeight::rest(float tensor_scale, float amax) const {
  std::vector<Piece> out;
  if (tensor_scale_part_) {
    out.push_back({tensor_scale_part_, 0, {}});
    append(out.back().bytes, stored_tensor_scale(*layout_, tensor_scale, amax));
  }
  if (!zeros_.empty()) {
    const int bits = format_.element.bits();
    const unsigned mask = (1u << bits) - 1, flipped = 1u << (bits - 1);
    Piece zeros{zeros_part_, 0, std::vector<std::byte>(parts_[zeros_part_].bytes)};
    std::vector<std::uint8_t> column(rows_);
    for (std::uint64_t c = 0; c < grid_columns_; ++c) {
      for (std::uint64_t r = 0; r < rows_; ++r)
        column[r] = static_cast<std::uint8_t>((zeros_[r * grid_columns_ + c] ^ flipped) & mask);
      const std::vector<std::uint8_t> packed = pack_codes(column, bits);
      for (std::size_t byte = 0; byte < packed.size(); ++byte)
        zeros.bytes[(byte / 4 * grid_columns_ + c) * 4 + byte % 4] = std::byte(packed[byte]);
    }
    out.push_back(std::move(zeros));
  }
  if (shape_part_) {
    out.push_back({shape_part_, 0, {}});
    append(out.back().bytes, rows_), append(out.back().bytes, columns_);
  }
  return out;
}

std::string EncodedWeight::metadata() const {
  const std::string_view type = layout_->type;
  if (type.empty()) return {};
  const auto enumerated = [](const char* of, std::string_view value) { return Json{{"_type", of}, {"_data", value}}; };
  const auto dtype = [&](std::string_view name) { return enumerated("torch.dtype", name); };
  const Json original = dtype(original_ == bf16   ? "bfloat16"
                              : original_ == fp16 ? "float16"
                              : original_ == fp64 ? "float64"
                                                  : "float32");
  Json block = Json::array();
  const bool one = format_.rows == 0 && format_.columns == 0;
  if (matrices_ > 1 || shape_.size() == 3) block.push_back(one ? matrices_ : 1);
  block.push_back(block_rows_), block.push_back(block_columns_);
  Json data = Json::object();
  if (type == "MXTensor") {
    const FloatFormat& element = format_.element.format;
    data["elem_dtype"] = element == e2m3 || element == e3m2 ? Json(element == e2m3 ? "fp6_e2m3" : "fp6_e3m2")
                                                            : dtype(element == e4m3   ? "float8_e4m3fn"
                                                                    : element == e5m2 ? "float8_e5m2"
                                                                                      : "float4_e2m1fn_x2");
    data["block_size"] = block_columns_, data["orig_dtype"] = original;
    data["kernel_preference"] = enumerated("KernelPreference", "EMULATED");
    data["act_quant_kwargs"] = nullptr, data["is_swizzled_scales"] = false;
  } else if (type == "NVFP4Tensor") {
    data = {{"is_swizzled_scales", false}, {"use_triton_kernel", false}, {"act_quant_kwargs", nullptr}};
    data["block_size"] = block_columns_, data["orig_dtype"] = original;
  } else if (type == "Float8Tensor") {
    data = {{"block_size", block}, {"mm_config", nullptr}, {"act_quant_kwargs", nullptr}};
    data["kernel_preference"] = enumerated("KernelPreference", "AUTO"), data["dtype"] = original;
  } else if (type == "Int8Tensor") {
    data = {{"act_quant_kwargs", nullptr}, {"reduce_range", false}, {"block_size", block}, {"dtype", original}};
  } else {
    data["target_dtype"] = dtype(fmt::format("int{}", format_.element.bits()));
    data["block_size"] = block, data["dtype"] = original, data["activation_quantization"] = nullptr;
  }
  Json names{"qdata", "scale"};
  if (tensor_scale_part_) names.push_back("per_tensor_scale");
  if (zeros_part_) names.push_back("zero_point");
  return Json{{"_type", type}, {"_data", data}, {"_tensor_data_names", names}}.dump();
}

}  // namespace halfulp
