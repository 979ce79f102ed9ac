// What `halfulp formats` says of block formats.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/quantize.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/emulation/block/scale.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/support/json.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace halfulp::cli {

/// One line a block format of the catalogue.
std::string block_table();
/// Everything about one.
std::string block_details(const BlockFormat& f);
nlohmann::ordered_json block_json(const BlockFormat& f);

namespace {

std::string bits_text(const BlockFormat& f) {
  if (f.elements()) return fmt::format("{:g}", f.bits_per_element());
  return fmt::format("{}+", f.element.bits());
}

std::string largest_text(const BlockElement& e) {
  return e.is_integer() ? fmt::format("{:g}", e.value(static_cast<unsigned>(e.most())))
                        : fmt::format("{:g}", e.target());
}

std::string formula(const BlockFormat& f) {
  const std::string target = fmt::format("{:g}", f.element.target());
  const int emax = f.element.emax();
  if (f.element.is_affine())
    return fmt::format("(max - min) / {}, zero point {} - min / scale", f.element.most() - f.element.least(),
                       f.element.least());
  switch (f.rule) {
    case ScaleRule::amax:
      return f.tensor_scale ? fmt::format("amax / {} / tensor scale, rounded to nearest even", target)
                            : fmt::format("amax / {}, rounded to nearest even", target);
    case ScaleRule::floor: return fmt::format("2^(floor(log2 amax) - {})", emax);
    case ScaleRule::ceil: return fmt::format("2^(ceil(log2 amax) - {})", emax);
    case ScaleRule::even:
      return fmt::format("2^(floor(log2 of amax rounded to {} fraction bits) - {})", f.element.top_fraction_bits(),
                         emax);
    case ScaleRule::rceil: return fmt::format("the least power of two that is no less than amax / {}", target);
  }
  return {};
}

std::string use_text(const BlockFormat& f) {
  if (f.rule != ScaleRule::amax) return "divided by the scale, which is exact";
  switch (f.use) {
    case ScaleUse::divide: return f.tensor_scale ? "v / (scale * tensor scale) in fp32" : "v / scale in fp32";
    case ScaleUse::reciprocal:
      return f.tensor_scale ? "v * ((1 / tensor scale) / scale) in fp32" : "v * (1 / scale) in fp32";
    case ScaleUse::multiplier: return "v * m in fp32 for m = target / amax; the scale is 1 / m";
  }
  return {};
}

}  // namespace

std::string block_table() {
  std::vector<std::vector<std::string>> rows{
      {"block format", "bits", "element", "block", "scale", "rule", "largest", "what it is"}};
  for (const NamedBlockFormat& row : block_catalogue()) {
    const BlockFormat& f = row.format;
    rows.push_back({std::string(row.name), bits_text(f), element_name(f.element), shape_name(f),
                    format_name(f.scale) + (f.tensor_scale ? ", fp32" : ""), std::string(name_of(f.rule)),
                    largest_text(f.element), std::string(row.title)});
  }
  return aligned(rows, 0) +
         "\nbits: of an element with its share of scale and zero point; rule: how a scale follows from the block; "
         "largest: element\n"
         "before its scale. `halfulp formats NAME` says more, also of others, described as "
         "ELEMENT/SHAPE/SCALE[/RULE][/OPTION...]:\n"
         "e4m3/1x64/e8m0/rceil, int8/row/fp32, mxfp4/even.\n";
}

std::string block_details(const BlockFormat& f) {
  const BlockElement& e = f.element;
  std::vector<std::vector<std::string>> facts{
      {"described as", description(f)},
      {"elements",
       fmt::format("{}: {} bits, {}, largest {}", element_name(e), e.bits(),
                   e.is_integer()
                       ? fmt::format("integers {} to {}{}", e.least(), e.most(),
                                     e.fraction_bits ? fmt::format(" times 2^-{}", e.fraction_bits) : std::string())
                       : std::string("a float"),
                   largest_text(e))},
      {"block", f.elements() ? fmt::format("{} ({} elements){}", shape_name(f), f.elements(),
                                           f.whole ? ", whole ones only" : "; at the array's edges shorter")
                             : shape_name(f)},
      {"scale", format_name(f.scale) + (f.tensor_scale ? fmt::format(", and an fp32 of the tensor: amax / {:g}",
                                                                     f.scale.value(f.scale.max_finite()) * e.target())
                                                       : std::string())},
      {"bits an element",
       f.elements() ? fmt::format("{:g} with the scale{}", f.bits_per_element(), e.is_affine() ? " and zero point" : "")
                    : fmt::format("{} and a share of {} for the scale", e.bits(), f.scale.storage_bits())},
      {"scale rule", std::string(name_of(f.rule)) + ": " + formula(f)},
      {"elements are", use_text(f) + "; rounded, saturating"},
      {"zero block", fmt::format("scale {}", print_exact(f.scale, block_step(f, 0.0f).scale).size() <= 12
                                                 ? print_exact(f.scale, block_step(f, 0.0f).scale)
                                                 : fmt::format("2^{}", f.scale.emin()))},
      {"NaN in a block", "scale NaN"},
  };
  if (e.is_affine()) facts[7][1] = fmt::format("scale 2^{}, zero point {}", f.scale.emin(), e.least());
  const NamedBlockFormat* row = find_named(f);
  if (row) {
    std::string aliases;
    for (const std::string_view alias : row->aliases)
      if (!alias.empty()) aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
    if (!aliases.empty()) facts.push_back({"also called", aliases});
    facts.push_back({"defined in", std::string(row->citation)});
  }
  return fmt::format("{}: {}\n\n{}", format_name(f), row ? std::string(row->title) : "a block format",
                     aligned(facts, 2));
}

nlohmann::ordered_json block_json(const BlockFormat& f) {
  const NamedBlockFormat* row = find_named(f);
  const BlockElement& e = f.element;
  nlohmann::ordered_json j{{"name", format_name(f)},
                           {"description", description(f)},
                           {"element", element_name(e)},
                           {"element_bits", e.bits()},
                           {"largest_element", e.is_integer() ? e.value(static_cast<unsigned>(e.most())) : e.target()},
                           {"block", shape_name(f)}};
  j["block_elements"] = f.elements() ? nlohmann::ordered_json(f.elements()) : nlohmann::ordered_json(nullptr);
  j["scale"] = format_name(f.scale);
  j["tensor_scale"] = f.tensor_scale;
  j["zero_point"] = e.is_affine();
  j["bits_per_element"] = f.elements() ? nlohmann::ordered_json(f.bits_per_element()) : nlohmann::ordered_json(nullptr);
  j["scale_rule"] = name_of(f.rule);
  j["scale_formula"] = formula(f);
  j["scale_use"] = name_of(f.use);
  j["whole_blocks"] = f.whole;
  j["title"] = row ? nlohmann::ordered_json(row->title) : nlohmann::ordered_json(nullptr);
  j["aliases"] = nlohmann::ordered_json::array();
  if (row)
    for (const std::string_view alias : row->aliases)
      if (!alias.empty()) j["aliases"].push_back(alias);
  j["citation"] = row ? nlohmann::ordered_json(row->citation) : nlohmann::ordered_json(nullptr);
  return j;
}

namespace {

/// A positive finite code exactly, in powers of two: "2^-14", "7*2^6", "(2-2^-7)*2^127".
std::string closed_form(const FloatFormat& f, std::uint64_t code) {
  const std::uint64_t significand = f.significand(code);
  const int zeros = std::countr_zero(significand), exponent = f.exponent(code) + zeros;
  const std::uint64_t odd = significand >> zeros;
  const int bits = std::bit_width(odd);
  if (odd == 1) return fmt::format("2^{}", exponent);
  if (bits > 4 && std::has_single_bit(odd + 1)) return fmt::format("(2-2^{})*2^{}", 1 - bits, exponent + bits - 1);
  return fmt::format("{}*2^{}", odd, exponent);
}

/// Exactly: in decimal where that is short.
std::string exactly(const FloatFormat& f, std::uint64_t code) {
  const std::string digits = print_exact(f, code);
  return digits.size() <= 10 ? digits : closed_form(f, code);
}

std::string integers_exact(const FloatFormat& f) { return fmt::format("{:.0f}", f.largest_consecutive_integer()); }

std::string table() {
  std::vector<std::vector<std::string>> rows{{"name", "bits", "s/e/m", "bias", "max", "min normal", "min positive",
                                              "epsilon", "integers", "digits", "Inf", "NaN", "what it is"}};
  for (const NamedFormat& row : catalogue()) {
    const FloatFormat& f = row.format;
    rows.push_back({std::string(row.name), fmt::format("{}", f.storage_bits()),
                    fmt::format("{}/{}/{}", f.is_signed ? 1 : 0, f.exponent_bits, f.fraction_bits),
                    fmt::format("{}", f.bias), exactly(f, f.max_finite()), closed_form(f, f.min_normal()),
                    closed_form(f, f.min_positive()), fmt::format("2^{}", -f.fraction_bits), integers_exact(f),
                    fmt::format("{}/{}", f.digits10(), f.max_digits10()), f.has_infinity() ? "yes" : "-",
                    f.has_nan() ? "yes" : "-", std::string(row.title)});
  }
  return aligned(rows, 0) +
         "\ns/e/m: bits of sign, exponent and fraction; integers: every one up to it is a value of the format;\n"
         "digits: decimal digits that survive, and digits that identify every value. "
         "`halfulp formats NAME` says more,\nalso of formats that are not in the table, such as e6m9finite.\n";
}

std::string details(const FloatFormat& f) {
  const std::string signs = f.is_signed ? "1 sign, " : "";
  std::vector<std::vector<std::string>> facts{
      {"bits",
       fmt::format("{}: {}{} exponent, {} fraction", f.storage_bits(), signs, f.exponent_bits, f.fraction_bits)},
      {"precision", fmt::format("{} with the hidden bit; epsilon 2^{}", f.precision(), -f.fraction_bits)},
      {"bias", fmt::format("{}: exponents {} to {}", f.bias, f.emin(), f.emax())},
      {"integers", "exact up to " + integers_exact(f)},
      {"decimal digits", fmt::format("{} survive, {} identify every value", f.digits10(), f.max_digits10())},
  };
  std::vector<std::vector<std::string>> codes;
  const auto add = [&](const char* name, std::uint64_t code) {
    std::vector<std::string> row{name, print_code(f, code), print_exact(f, code), ""};
    if (f.is_finite(code) && !f.is_zero(code)) {
      if (row[2].size() > 24) row[2] = decimal_text(exact_value(f, code), 12);
      row[3] = closed_form(f, code);
    }
    codes.push_back(std::move(row));
  };
  add("largest finite", f.max_finite());
  add("smallest normal", f.min_normal());
  if (f.has_subnormals()) add("smallest positive", f.min_positive());
  if (f.has_zero) add("zero", f.zero());
  if (f.has_negative_zero()) add("negative zero", f.zero(true));
  if (f.has_infinity()) add("infinity", f.infinity());
  if (f.has_nan()) add("NaN", f.canonical_nan());

  std::string absent;
  for (const auto& [there, name] :
       {std::pair(f.has_infinity(), "infinity"), std::pair(f.has_nan(), "NaN"), std::pair(f.has_zero, "zero"),
        std::pair(f.has_negative_zero() || !f.has_zero, "negative zero"), std::pair(f.is_signed, "negative values"),
        std::pair(f.has_subnormals(), "subnormals")})
    if (!there) absent += (absent.empty() ? "" : ", ") + std::string(name);
  facts.push_back({"has no", absent.empty() ? "-" : absent});
  if (const NamedFormat* row = find_named(f)) {
    std::string aliases;
    for (const std::string_view alias : row->aliases)
      if (!alias.empty()) aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
    if (!aliases.empty()) facts.push_back({"also called", aliases});
    facts.push_back({"defined in", std::string(row->citation)});
  }
  return fmt::format("{}: {}\n\n{}\n{}", format_name(f), format_title(f), aligned(facts, 2), aligned(codes, 2));
}

Json to_json(const FloatFormat& f) {
  const NamedFormat* row = find_named(f);
  Json json{{"name", format_name(f)},
            {"title", format_title(f)},
            {"storage_bits", f.storage_bits()},
            {"sign_bits", f.is_signed ? 1 : 0},
            {"exponent_bits", f.exponent_bits},
            {"fraction_bits", f.fraction_bits},
            {"bias", f.bias},
            {"emin", f.emin()},
            {"emax", f.emax()},
            {"max", emulated(f, f.max_finite())},
            {"min_normal", emulated(f, f.min_normal())},
            {"min_positive", emulated(f, f.min_positive())},
            {"epsilon", f.epsilon()},
            {"integers_exact_to", f.largest_consecutive_integer()},
            {"digits10", f.digits10()},
            {"max_digits10", f.max_digits10()},
            {"has_zero", f.has_zero},
            {"has_negative_zero", f.has_negative_zero()},
            {"has_subnormals", f.has_subnormals()},
            {"infinity", f.has_infinity() ? Json(print_code(f, f.infinity())) : Json(nullptr)},
            {"nan", f.has_nan() ? Json(print_code(f, f.canonical_nan())) : Json(nullptr)}};
  json["aliases"] = Json::array();
  if (row)
    for (const std::string_view alias : row->aliases)
      if (!alias.empty()) json["aliases"].push_back(alias);
  json["citation"] = row ? Json(row->citation) : Json(nullptr);
  return json;
}

struct FormatsArguments {
  std::optional<std::string> name;
  bool json = false, blocks = false;
};

void formats_command(const FormatsArguments& options) {
  if (options.name) {
    const AnyFormat any = parse_any_format(*options.name);
    if (const auto* block = std::get_if<BlockFormat>(&any))
      return write_output(options.json ? pretty(block_json(*block)) + "\n" : block_details(*block));
    const FloatFormat format = std::get<FloatFormat>(any);
    return write_output(options.json ? pretty(to_json(format)) + "\n" : details(format));
  }
  if (!options.json)
    return write_output(
        options.blocks
            ? block_table()
            : table() + "`halfulp formats --blocks` lists block formats: MX, NVFP4, FP8 and integers with scales.\n");
  Json all = Json::array();
  if (options.blocks) {
    for (const NamedBlockFormat& row : block_catalogue()) all.push_back(block_json(row.format));
  } else {
    for (const NamedFormat& row : catalogue()) all.push_back(to_json(row.format));
  }
  write_output(pretty(all) + "\n");
}

}  // namespace

void add_formats_command(CLI::App& app, int&) {
  auto options = std::make_shared<FormatsArguments>();
  auto* command = app.add_subcommand("formats", "the formats and their constants");
  command->add_option("NAME", options->name,
                      "one format in detail: fp16, e4m3, any eXmY such as e6m9finite, or a block format such as mxfp4");
  command->add_flag("--blocks", options->blocks, "block formats: elements of a few bits that share a scale");
  command->add_flag("--json", options->json, "as JSON");
  command->callback([options] { formats_command(*options); });
}

}  // namespace halfulp::cli
