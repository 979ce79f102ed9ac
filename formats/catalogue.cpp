#include <halfulp/formats/catalogue.hpp>

#include <halfulp/formats/block_format.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

constexpr std::string_view ieee754 = "IEEE 754-2019, table 3.5";
constexpr std::string_view ocp_fp8 =
    "OCP 8-bit Floating Point Specification (OFP8) 1.0; Micikevicius et al. 2022, arXiv:2209.05433";
constexpr std::string_view ocp_mx = "OCP Microscaling Formats (MX) Specification 1.0";
constexpr std::string_view fnuz = "Noune et al. 2022, arXiv:2206.02915; LLVM APFloat";

// clang-format off
constexpr NamedFormat named_formats[] = {
  {"fp16", fp16, "IEEE half precision", ieee754, {"float16", "binary16", "half", "f16", "IEEEhalf"}},
  {"bf16", bf16, "bfloat16", "Intel, BFLOAT16 Hardware Numerics Definition, 2018", {"bfloat16", "BFloat"}},
  {"tf32", tf32, "NVIDIA TensorFloat-32, 19 bits", "NVIDIA A100 Tensor Core GPU Architecture whitepaper, 2020", {"tensorfloat32", "FloatTF32"}},
  {"fp32", fp32, "IEEE single precision", ieee754, {"float32", "binary32", "single", "f32", "IEEEsingle"}},
  {"fp64", fp64, "IEEE double precision", ieee754, {"float64", "binary64", "double", "f64", "IEEEdouble"}},
  {"e4m3", e4m3, "OCP FP8 E4M3, no infinity", ocp_fp8, {"float8_e4m3fn", "Float8E4M3FN", "e4m3fn"}},
  {"e5m2", e5m2, "OCP FP8 E5M2, IEEE-like", ocp_fp8, {"float8_e5m2", "Float8E5M2"}},
  {"e4m3fnuz", e4m3fnuz, "FP8 E4M3, one NaN, no -0", fnuz, {"float8_e4m3fnuz", "Float8E4M3FNUZ"}},
  {"e5m2fnuz", e5m2fnuz, "FP8 E5M2, one NaN, no -0", fnuz, {"float8_e5m2fnuz", "Float8E5M2FNUZ"}},
  {"e4m3b11fnuz", e4m3b11fnuz, "FP8 E4M3 with bias 11", "Sun et al. 2019, NeurIPS (HFP8); LLVM APFloat", {"float8_e4m3b11fnuz", "Float8E4M3B11FNUZ"}},
  {"e4m3ieee", e4m3ieee, "FP8 E4M3, IEEE-like", "LLVM APFloat, Float8E4M3", {"float8_e4m3", "Float8E4M3"}},
  {"e3m4", e3m4, "FP8 E3M4, IEEE-like", "LLVM APFloat, Float8E3M4", {"float8_e3m4", "Float8E3M4"}},
  {"e3m2", e3m2, "OCP MX FP6 E3M2, finite only", ocp_mx, {"float6_e3m2fn", "Float6E3M2FN"}},
  {"e2m3", e2m3, "OCP MX FP6 E2M3, finite only", ocp_mx, {"float6_e2m3fn", "Float6E2M3FN"}},
  {"e2m1", e2m1, "OCP MX FP4 E2M1, finite only", ocp_mx, {"float4_e2m1fn", "Float4E2M1FN", "fp4"}},
  {"e8m0", e8m0, "OCP MX scale, powers of two", ocp_mx, {"float8_e8m0fnu", "Float8E8M0FNU", "ue8m0"}},
  {"p3109k8p3", p3109k8p3, "IEEE P3109 binary8, 3-bit precision", "IEEE P3109 interim report, signed extended k = 8, p = 3", {"p3109_8p3", "binary8p3"}},
  {"p3109k8p4", p3109k8p4, "IEEE P3109 binary8, 4-bit precision", "IEEE P3109 interim report, signed extended k = 8, p = 4", {"p3109_8p4", "binary8p4"}},
};

struct Suffix { std::string_view name; NonFinite nonfinite; };
constexpr Suffix suffixes[] = {  // longest first: "fnuz" begins with "fn"
  {"finite", NonFinite::none}, {"p3109", NonFinite::p3109}, {"fnuz", NonFinite::nan_negative_zero},
  {"ieee", NonFinite::ieee}, {"fn", NonFinite::nan_all_ones}, {"", NonFinite::ieee},
};
// clang-format on

constexpr std::string_view format_grammar = "eXmY[bBIAS][ieee|fn|fnuz|p3109|finite], for example e5m3 or e6m9finite";

/// IEEE's bias, or one more where the top of the range was given to numbers (FNUZ, P3109). 0 for no format's width.
int default_bias(int exponent_bits, NonFinite nonfinite) {
  if (exponent_bits < 1 || exponent_bits > 30) return 0;
  const bool shifted = nonfinite == NonFinite::nan_negative_zero || nonfinite == NonFinite::p3109;
  return (1 << (exponent_bits - 1)) - (shifted ? 0 : 1);
}

bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_letter(std::string_view& text, char letter) {
  if (text.empty() || text.front() != letter) return false;
  text.remove_prefix(1);
  return true;
}

/// The format that a name in lower case names or describes, which may have a defect.
std::optional<FloatFormat> described(const std::string& wanted) {
  for (const NamedFormat& row : named_formats) {
    if (wanted == row.name) return row.format;
    for (const std::string_view alias : row.aliases)
      if (!alias.empty() && wanted == lowered(alias)) return row.format;
  }

  std::string_view rest = wanted;
  FloatFormat format;
  bool has_bias = false;
  if (take_letter(rest, 'e') && take_number(rest, format.exponent_bits) && take_letter(rest, 'm') &&
      take_number(rest, format.fraction_bits) &&
      (!(has_bias = take_letter(rest, 'b')) || take_number(rest, format.bias))) {
    for (const Suffix& suffix : suffixes) {
      if (rest != suffix.name) continue;
      format.nonfinite = suffix.nonfinite;
      if (!has_bias && format.exponent_bits >= 1 && format.exponent_bits <= 11)
        format.bias = default_bias(format.exponent_bits, format.nonfinite);
      return format;
    }
  }
  return {};
}

}  // namespace

std::span<const NamedFormat> catalogue() { return named_formats; }

const NamedFormat* find_named(const FloatFormat& format) {
  for (const NamedFormat& row : named_formats)
    if (row.format == format) return &row;
  return nullptr;
}

std::optional<FloatFormat> find_format(std::string_view name) {
  const auto format = described(lowered(name));
  return format && defect(*format).empty() ? format : std::nullopt;
}

FloatFormat parse_format(std::string_view name) {
  const std::string wanted = lowered(name);
  if (const auto format = described(wanted)) {
    if (const std::string why = defect(*format); !why.empty())
      throw std::invalid_argument("format '" + std::string(name) + "' " + why +
                                  "; accepted: " + std::string(format_grammar));
    return *format;
  }

  // What people say of two formats, and of formats whose numbers share scales.
  if (wanted == "fp8" || wanted == "float8")
    throw std::invalid_argument("format '" + std::string(name) + "' is one of two; accepted: e4m3, e5m2");
  if (names_block_format(name))
    throw std::invalid_argument(
        "format '" + shown(name) +
        "' is a block format; accepted here: a format of single numbers such as e4m3 (halfulp formats)");
  std::vector<std::string> names;
  for (const NamedFormat& row : named_formats) names.emplace_back(row.name);
  throw std::invalid_argument(unknown_name("format", name, std::move(names)) + ", or " + std::string(format_grammar));
}

std::string defect(const FloatFormat& f) {
  if (f.exponent_bits < 1 || f.exponent_bits > 11)
    return "has " + std::to_string(f.exponent_bits) + " exponent bits, not 1 to 11";
  if (f.fraction_bits < 0 || f.fraction_bits > 52)
    return "has " + std::to_string(f.fraction_bits) + " fraction bits, not 0 to 52";
  if (f.nonfinite == NonFinite::ieee && (f.fraction_bits < 1 || f.exponent_bits < 2))
    return "is too small for IEEE infinities and NaNs (it needs e2m1 at least; try the suffix finite or fn)";
  if (f.storage_bits() < 3) return "has fewer than 3 bits";
  if (f.bias < -1100 || f.bias > 1100 || f.emin() - f.fraction_bits < -1074 || f.emax() > 1023)
    return "has values beyond the range of a double (bias " + std::to_string(f.bias) + ")";
  if ((!f.is_signed || !f.has_zero) && !find_named(f)) return "lacks a sign or a zero, which only e8m0 may";
  return {};
}

std::string format_name(const FloatFormat& format) {
  if (const NamedFormat* row = find_named(format)) return std::string(row->name);
  std::string name = "e";
  name += std::to_string(format.exponent_bits) + "m" + std::to_string(format.fraction_bits);
  if (format.bias != default_bias(format.exponent_bits, format.nonfinite))
    name.append("b").append(std::to_string(format.bias));
  const bool taken = std::any_of(std::begin(named_formats), std::end(named_formats),
                                 [&](const NamedFormat& row) { return row.name == name; });
  if (format.nonfinite == NonFinite::ieee) return taken ? name + "ieee" : name;
  for (const Suffix& suffix : suffixes)
    if (suffix.nonfinite == format.nonfinite) return name + std::string(suffix.name);
  return name;
}

}  // namespace halfulp
