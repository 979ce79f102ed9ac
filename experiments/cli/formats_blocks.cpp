#include <halfulp/experiments/cli/formats_blocks.hpp>

#include <halfulp/emulation/block/scale.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/formats/block_catalogue.hpp>

#include <fmt/core.h>

namespace halfulp::cli {
namespace {

std::string bits_text(const BlockFormat& f) {
  if (f.elements()) return fmt::format("{:g}", f.bits_per_element());
  return fmt::format("{}+", f.element.bits());
}

std::string largest_text(const BlockElement& e) {
  return e.is_integer() ? fmt::format("{:g}", e.value(static_cast<unsigned>(e.most()))) : fmt::format("{:g}", e.target());
}

std::string formula(const BlockFormat& f) {
  const std::string target = fmt::format("{:g}", f.element.target());
  const int emax = f.element.emax();
  if (f.element.is_affine()) return fmt::format("(max - min) / {}, zero point {} - min / scale", f.element.most() - f.element.least(), f.element.least());
  switch (f.rule) {
    case ScaleRule::amax: return f.tensor_scale ? fmt::format("amax / {} / tensor scale, rounded to nearest even", target) : fmt::format("amax / {}, rounded to nearest even", target);
    case ScaleRule::floor: return fmt::format("2^(floor(log2 amax) - {})", emax);
    case ScaleRule::ceil: return fmt::format("2^(ceil(log2 amax) - {})", emax);
    case ScaleRule::even: return fmt::format("2^(floor(log2 of amax rounded to {} fraction bits) - {})", f.element.top_fraction_bits(), emax);
    case ScaleRule::rceil: return fmt::format("the least power of two that is no less than amax / {}", target);
  }
  return {};
}

std::string use_text(const BlockFormat& f) {
  if (f.rule != ScaleRule::amax) return "divided by the scale, which is exact";
  switch (f.use) {
    case ScaleUse::divide: return f.tensor_scale ? "v / (scale * tensor scale) in fp32" : "v / scale in fp32";
    case ScaleUse::reciprocal: return f.tensor_scale ? "v * ((1 / tensor scale) / scale) in fp32" : "v * (1 / scale) in fp32";
    case ScaleUse::multiplier: return "v * m in fp32 for m = target / amax; the scale is 1 / m";
  }
  return {};
}

}  // namespace

std::string block_table() {
  std::vector<std::vector<std::string>> rows{{"block format", "bits", "element", "block", "scale", "rule", "largest", "what it is"}};
  for (const NamedBlockFormat& row : block_catalogue()) {
    const BlockFormat& f = row.format;
    rows.push_back({std::string(row.name), bits_text(f), element_name(f.element), shape_name(f), format_name(f.scale) + (f.tensor_scale ? ", fp32" : ""),
                    std::string(name_of(f.rule)), largest_text(f.element), std::string(row.title)});
  }
  return aligned(rows, 0) +
         "\nbits: of an element with its share of scale and zero point; rule: how a scale follows from the block; largest: element\n"
         "before its scale. `halfulp formats NAME` says more, also of others, described as ELEMENT/SHAPE/SCALE[/RULE][/OPTION...]:\n"
         "e4m3/1x64/e8m0/rceil, int8/row/fp32, mxfp4/even.\n";
}

std::string block_details(const BlockFormat& f) {
  const BlockElement& e = f.element;
  std::vector<std::vector<std::string>> facts{
      {"described as", description(f)},
      {"elements", fmt::format("{}: {} bits, {}, largest {}", element_name(e), e.bits(), e.is_integer() ? fmt::format("integers {} to {}{}", e.least(), e.most(), e.fraction_bits ? fmt::format(" times 2^-{}", e.fraction_bits) : std::string()) : std::string("a float"), largest_text(e))},
      {"block", f.elements() ? fmt::format("{} ({} elements){}", shape_name(f), f.elements(), f.whole ? ", whole ones only" : "; at the array's edges shorter") : shape_name(f)},
      {"scale", format_name(f.scale) + (f.tensor_scale ? fmt::format(", and an fp32 of the tensor: amax / {:g}", f.scale.value(f.scale.max_finite()) * e.target()) : std::string())},
      {"bits an element", f.elements() ? fmt::format("{:g} with the scale{}", f.bits_per_element(), e.is_affine() ? " and zero point" : "") : fmt::format("{} and a share of {} for the scale", e.bits(), f.scale.storage_bits())},
      {"scale rule", std::string(name_of(f.rule)) + ": " + formula(f)},
      {"elements are", use_text(f) + "; rounded, saturating"},
      {"zero block", fmt::format("scale {}", print_exact(f.scale, block_step(f, 0.0f).scale).size() <= 12 ? print_exact(f.scale, block_step(f, 0.0f).scale) : fmt::format("2^{}", f.scale.emin()))},
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
  return fmt::format("{}: {}\n\n{}", format_name(f), row ? std::string(row->title) : "a block format", aligned(facts, 2));
}

nlohmann::ordered_json block_json(const BlockFormat& f) {
  const NamedBlockFormat* row = find_named(f);
  const BlockElement& e = f.element;
  nlohmann::ordered_json j{{"name", format_name(f)}, {"description", description(f)}, {"element", element_name(e)}, {"element_bits", e.bits()},
                           {"largest_element", e.is_integer() ? e.value(static_cast<unsigned>(e.most())) : e.target()}, {"block", shape_name(f)}};
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

}  // namespace halfulp::cli
