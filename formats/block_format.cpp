#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

constexpr std::string_view mx = "OCP Microscaling Formats (MX) Specification 1.0, sections 5.2, 5.3 and 6.3";
constexpr std::string_view nv =
    "NVIDIA, Pretraining LLMs with NVFP4, arXiv:2509.25149; arithmetic as torchao's nvfp4_quantize";
constexpr std::string_view deepseek =
    "DeepSeek-V3 technical report, arXiv:2412.19437, section 3.3; inference/kernel.py";
constexpr std::string_view ue8m0 = "DeepGEMM, UE8M0 scales (ceil_to_ue8m0 of amax / 448), kept as fp32";
constexpr std::string_view tensorwise =
    "Micikevicius et al. 2022, arXiv:2209.05433; torchao quant_primitives, _choose_scale_float8";
constexpr std::string_view integers =
    "Jacob et al. 2018, arXiv:1712.05877; torchao quant_primitives, choose_qparams_affine";

/// More than any tensor's row; products of sizes stay far from 2^64.
constexpr std::uint64_t max_block_elements = std::uint64_t{1} << 32;

constexpr BlockElement floats(const FloatFormat& f) { return {f, 0, 0, IntegerRange::symmetric}; }
constexpr BlockElement ints(int bits, int fraction, IntegerRange range) { return {{}, bits, fraction, range}; }
constexpr BlockFormat mx32(const BlockElement& e) {
  return {e, 1, 32, e8m0, ScaleRule::floor, ScaleUse::divide, false, false};
}
constexpr BlockFormat fp32_scaled(const BlockElement& e, std::size_t rows, std::size_t columns,
                                  ScaleRule rule = ScaleRule::amax, ScaleUse use = ScaleUse::divide) {
  return {e, rows, columns, fp32, rule, use, false, false};
}
constexpr BlockFormat integer(const BlockElement& e, std::size_t columns) {
  return fp32_scaled(e, 1, columns, ScaleRule::amax, ScaleUse::reciprocal);
}

// clang-format off
constexpr NamedBlockFormat named_block_formats[] = {
  {"mxfp8e4m3",      mx32(floats(e4m3)), "OCP MXFP8 of E4M3", mx, {"mxfp8", "mxfp8_e4m3", "mx_fp8_e4m3"}},
  {"mxfp8e5m2",      mx32(floats(e5m2)), "OCP MXFP8 of E5M2", mx, {"mxfp8_e5m2", "mx_fp8_e5m2"}},
  {"mxfp6e3m2",      mx32(floats(e3m2)), "OCP MXFP6 of E3M2", mx, {"mxfp6", "mxfp6_e3m2", "mx_fp6_e3m2"}},
  {"mxfp6e2m3",      mx32(floats(e2m3)), "OCP MXFP6 of E2M3", mx, {"mxfp6_e2m3", "mx_fp6_e2m3"}},
  {"mxfp4",          mx32(floats(e2m1)), "OCP MXFP4 (E2M1)", mx, {"mxfp4e2m1", "mxfp4_e2m1", "mx_fp4_e2m1"}},
  {"mxint8",         mx32(ints(8, 6, IntegerRange::symmetric)), "OCP MXINT8, 1.6 fixed point, -2 unused", mx, {"mx_int8"}},
  {"nvfp4",          {floats(e2m1), 1, 16, e4m3, ScaleRule::amax, ScaleUse::reciprocal, true, false}, "NVIDIA NVFP4, two levels of scales", nv, {"nvfp4_e2m1"}},
  {"fp8-1x128",      fp32_scaled(floats(e4m3), 1, 128), "DeepSeek-V3 activations", deepseek, {"fp8_1x128", "deepseek-1x128"}},
  {"fp8-128x128",    fp32_scaled(floats(e4m3), 128, 128), "DeepSeek-V3 weights", deepseek, {"fp8_128x128", "deepseek-128x128"}},
  {"fp8-1x128-pow2", fp32_scaled(floats(e4m3), 1, 128, ScaleRule::rceil), "the same with powers of two", ue8m0, {"fp8_1x128_ue8m0"}},
  {"fp8-128x128-pow2", fp32_scaled(floats(e4m3), 128, 128, ScaleRule::rceil), "the same with powers of two", ue8m0, {"fp8_128x128_ue8m0"}},
  {"e4m3-tensor",    fp32_scaled(floats(e4m3), 0, 0), "E4M3, one scale", tensorwise, {"per-tensor-e4m3", "fp8-tensor", "fp8_tensorwise"}},
  {"e5m2-tensor",    fp32_scaled(floats(e5m2), 0, 0), "E5M2, one scale", tensorwise, {"per-tensor-e5m2"}},
  {"e4m3-row",       fp32_scaled(floats(e4m3), 1, 0), "E4M3, a scale a row", tensorwise, {"per-channel-e4m3", "fp8-row", "fp8_rowwise"}},
  {"e5m2-row",       fp32_scaled(floats(e5m2), 1, 0), "E5M2, a scale a row", tensorwise, {"per-channel-e5m2"}},
  {"int8",           integer(ints(8, 0, IntegerRange::symmetric), 0), "INT8 -127 to 127, a scale a row", integers, {"int8-row", "per-channel-int8"}},
  {"int8-affine",    integer(ints(8, 0, IntegerRange::affine), 0), "INT8 with a zero point a row", integers, {"int8_affine", "int8_asymmetric"}},
  {"int8-tensor",    fp32_scaled(ints(8, 0, IntegerRange::symmetric), 0, 0, ScaleRule::amax, ScaleUse::reciprocal), "INT8 -127 to 127, one scale", integers, {"per-tensor-int8"}},
  {"int4",           integer(ints(4, 0, IntegerRange::full), 128), "INT4 -8 to 7, a scale for 128", integers, {"int4-1x128", "int4_symmetric"}},
  {"int4-affine",    integer(ints(4, 0, IntegerRange::affine_unsigned), 128), "INT4 0 to 15 with a zero point for 128", integers, {"uint4-affine", "int4_asymmetric"}},
};
// clang-format on

constexpr std::string_view block_grammar =
    "ELEMENT/SHAPE/SCALE[/RULE][/OPTION...], for example e4m3/1x64/e8m0/rceil or int8/row/fp32; a name may be followed "
    "by changes, as in mxfp4/rceil";

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

template <class T>
bool take_number(std::string_view& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

const NamedBlockFormat* find_name(std::string_view wanted) {
  for (const NamedBlockFormat& row : named_block_formats) {
    if (wanted == row.name) return &row;
    for (const std::string_view alias : row.aliases)
      if (!alias.empty() && wanted == alias) return &row;
  }
  return nullptr;
}

std::optional<BlockElement> integer_element(std::string_view text) {
  BlockElement e;
  const bool is_unsigned = take_prefix(text, "u");
  if (!take_prefix(text, "int") || !take_number(text, e.integer_bits)) return std::nullopt;
  if (take_prefix(text, ".") && !take_number(text, e.fraction_bits)) return std::nullopt;
  if (text == "affine") e.range = is_unsigned ? IntegerRange::affine_unsigned : IntegerRange::affine;
  else if (text == "full" && !is_unsigned) e.range = IntegerRange::full;
  else if (!text.empty() || is_unsigned) return std::nullopt;
  return e;
}

struct Shape {
  std::size_t rows, columns;
};

std::optional<Shape> shape(std::string_view text) {
  if (text == "tensor") return Shape{0, 0};
  if (text == "row") return Shape{1, 0};
  if (text == "column") return Shape{0, 1};
  Shape s{};
  if (!take_number(text, s.rows) || !take_prefix(text, "x") || !take_number(text, s.columns) || !text.empty())
    return std::nullopt;
  if (s.rows == 0 || s.columns == 0) return std::nullopt;
  return s;
}

/// A rule or an option; false if it is neither.
bool apply_word(BlockFormat& f, std::string_view word) {
  for (const auto& [name, rule] : scale_rules)
    if (word == name) return f.rule = rule, true;
  for (const auto& [name, use] : scale_uses)
    if (word == name) return f.use = use, true;
  if (word == "tensor-scale") return f.tensor_scale = true;
  if (word == "whole") return f.whole = true;
  return false;
}

std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw std::invalid_argument("block format '" + shown(name) + "' " + why +
                              "; accepted: " + std::string(block_grammar));
}

bool is_element(std::string_view word) { return integer_element(word) || find_format(word); }

BlockElement parse_element(std::string_view name, std::string_view word) {
  if (const auto e = integer_element(word)) return *e;
  if (const auto f = find_format(word)) return floats(*f);
  refuse(name, "has an unknown element '" + shown(word) +
                   "': a format of at most 8 bits, or intB[.F][full|affine], uintBaffine with 2 to 8 bits");
}

}  // namespace

std::span<const NamedBlockFormat> block_catalogue() { return named_block_formats; }

const NamedBlockFormat* find_named(const BlockFormat& format) {
  for (const NamedBlockFormat& row : named_block_formats)
    if (row.format == format) return &row;
  return nullptr;
}

bool names_block_format(std::string_view name) {
  return name.find('/') != std::string_view::npos || find_name(lowered(name));
}

BlockFormat parse_block_format(std::string_view name) {
  const std::string wanted = lowered(name);
  const std::vector<std::string_view> words = pieces(wanted);
  BlockFormat f;
  std::size_t next = 1;
  if (words.size() > 1 && shape(words[1]) && (!find_name(words[0]) || integer_element(words[0]))) {
    f.element = parse_element(name, words[0]);
    f.rows = shape(words[1])->rows, f.columns = shape(words[1])->columns;
    if (words.size() < 3) refuse(name, "lacks the format of its scales");
    const auto scale = find_format(words[2]);
    if (!scale) refuse(name, "has scales of an unknown format '" + shown(words[2]) + "'");
    f.scale = *scale;
    f.rule = f.scale == e8m0 ? ScaleRule::floor : ScaleRule::amax;
    next = 3;
  } else if (const NamedBlockFormat* row = find_name(words[0])) {
    f = row->format;
  } else if (words.size() > 1 && is_element(words[0])) {
    refuse(name, "has an unknown shape '" + shown(words[1]) + "': RxC such as 1x32, row, column or tensor");
  } else {
    std::vector<std::string> names;
    for (const NamedBlockFormat& known : named_block_formats) names.emplace_back(known.name);
    throw std::invalid_argument(unknown_name("block format", name, std::move(names)) + ", or " +
                                std::string(block_grammar));
  }
  for (; next < words.size(); ++next) {
    if (apply_word(f, words[next])) continue;
    if (const auto s = shape(words[next])) {
      f.rows = s->rows, f.columns = s->columns;
      continue;
    }
    refuse(name, "has an unknown part '" + shown(words[next]) +
                     "': a shape as 1x32, row, column or tensor; amax, floor, ceil, even, rceil; divide, reciprocal, "
                     "multiplier; tensor-scale, whole");
  }
  if (const std::string why = defect(f); !why.empty()) refuse(name, why);
  return f;
}

std::string defect(const BlockFormat& f) {
  const BlockElement& e = f.element;
  if (e.is_integer()) {
    if (e.integer_bits < 2 || e.integer_bits > 8)
      return "has integers of " + std::to_string(e.integer_bits) + " bits, not 2 to 8";
    if (e.fraction_bits < 0 || e.fraction_bits > 30)
      return "has integers with " + std::to_string(e.fraction_bits) + " fraction bits, not 0 to 30";
    if (e.is_affine() && e.fraction_bits) return "has a fixed point and a zero point";
  } else {
    if (const std::string why = defect(e.format); !why.empty()) return "has an element that " + why;
    if (e.format.storage_bits() > 8)
      return "has elements of " + std::to_string(e.format.storage_bits()) + " bits, more than 8";
    if (!e.format.is_signed || !e.format.has_zero) return "has elements without sign or zero";
    if (e.format.emin() - e.format.fraction_bits < -126 || e.format.emax() > 126)
      return "has elements beyond the range of fp32";
  }
  const std::uint64_t rows = f.rows, columns = f.columns;
  if (rows > max_block_elements || (rows && columns > max_block_elements / rows) || columns > max_block_elements)
    return "has blocks of more than 2^32 elements";
  if (const std::string why = defect(f.scale); !why.empty()) return "has scales whose format " + why;
  if (f.scale.precision() > 24 || f.scale.emin() < -127 || f.scale.emax() > 127)
    return "has scales that are no fp32 numbers";
  if (!f.scale.has_nan()) return "has scales without NaN, which blocks that hold a NaN need";
  if (f.scale == e8m0 && f.rule == ScaleRule::amax)
    return "has E8M0 scales by the rule amax: they take floor, ceil, even or rceil";
  if (!f.scale.has_zero && f.scale != e8m0) return "has scales without zero other than E8M0";
  if (f.scale.emin() > f.scale.emax()) return "has scales of which none is a normal power of two";
  if (e.is_affine() && f.rule != ScaleRule::amax)
    return "has a zero point and the scale rule " + std::string(name_of(f.rule)) + ": it takes amax";
  if (e.is_affine() && f.tensor_scale) return "has a zero point and a tensor scale";
  if (f.tensor_scale && f.rule != ScaleRule::amax)
    return "has a tensor scale and the scale rule " + std::string(name_of(f.rule)) + ": it takes amax";
  if (f.use == ScaleUse::multiplier &&
      (f.scale != fp32 || e.is_affine() || f.tensor_scale || f.rule != ScaleRule::amax))
    return "multiplies by target / amax without fp32 scales by the rule amax, or with a zero point or tensor scale";
  return {};
}

std::string element_name(const BlockElement& e) {
  if (!e.is_integer()) return format_name(e.format);
  std::string name = (e.range == IntegerRange::affine_unsigned ? "uint" : "int") + std::to_string(e.integer_bits);
  if (e.fraction_bits) name += "." + std::to_string(e.fraction_bits);
  if (e.is_affine()) name += "affine";
  if (e.range == IntegerRange::full) name += "full";
  return name;
}

std::string shape_name(const BlockFormat& f) {
  if (f.rows && f.columns) return std::to_string(f.rows) + "x" + std::to_string(f.columns);
  if (!f.rows && !f.columns) return "tensor";
  return f.columns == 0 ? "row" : "column";
}

std::string description(const BlockFormat& f) {
  std::string text = element_name(f.element) + "/" + shape_name(f) + "/" + format_name(f.scale) + "/" +
                     std::string(name_of(f.rule));
  if (f.use != ScaleUse::divide) text.append("/").append(name_of(f.use));
  if (f.tensor_scale) text += "/tensor-scale";
  if (f.whole) text += "/whole";
  return text;
}

std::string format_name(const BlockFormat& format) {
  const NamedBlockFormat* row = find_named(format);
  return row ? std::string(row->name) : description(format);
}

}  // namespace halfulp
