#include <halfulp/training/storage.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/training/counting.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <limits>
#include <vector>

namespace halfulp::training {
namespace {

DelayedScaling parse_delayed(const Json& json, const std::string& where) {
  DelayedScaling d;
  Members members(json, where);
  d.length = static_cast<std::size_t>(members.integer("length", 1024, 1, 1'000'000));
  d.choice = members.choice("choice", amax_choices, AmaxChoice::max);
  d.margin = static_cast<int>(members.integer("margin", 0, -64, 64));
  members.finish();
  return d;
}

/// Delayed and fixed scales do not follow from the values: they need a format with one scale.
void require_one_scale(const Storage& s, const std::string& what) {
  if (!s.block() || s.block()->rows != 0 || s.block()->columns != 0 || s.block()->tensor_scale ||
      s.block()->element.is_affine())
    throw std::invalid_argument(what + " is for block formats with one scale a tensor, such as e4m3-tensor");
}

std::variant<FloatFormat, BlockFormat> parse_any_format(const std::string& name, const std::string& where) {
  try {
    if (names_block_format(name)) return parse_block_format(name);
    const FloatFormat f = parse_format(name);
    if (!f.is_signed || !f.has_zero)
      throw std::invalid_argument(shown(name) + " has no sign or no zero; no tensor is stored in it");
    if (!holds(fp32, f))
      throw std::invalid_argument(shown(name) + " has values that no float holds; accepted: formats within fp32");
    return f;
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(where + ": " + error.what()); }
}

}  // namespace

Storage parse_storage(const Json& json, const std::string& where) {
  Storage s;
  if (json.is_string()) {
    s.format = parse_any_format(json.get<std::string>(), where);
    return s;
  }
  Members members(json, where, "a format's name, or an object with format, rounding, ...");
  s.format = parse_any_format(members.text("format"), where + ".format");
  s.rounding.mode = members.choice("rounding", rounding_modes, RoundingMode::nearest_even);
  s.rounding.random_bits = static_cast<int>(members.integer("random_bits", max_random_bits, 1, max_random_bits));
  s.rounding.overflow = members.choice("overflow", overflow_rules, Overflow::ieee);
  s.rounding.flush_outputs = members.boolean("flush_outputs", false);
  if (const Json* const delayed = members.find("delayed")) {
    require_one_scale(s, where + ".delayed: delayed scaling");
    s.delayed = parse_delayed(*delayed, where + ".delayed");
  }
  if (const Json* const amax = members.find("amax")) {
    require_one_scale(s, where + ".amax: a fixed amax");
    if (s.delayed) throw std::invalid_argument(where + ".amax: a fixed amax and delayed scaling exclude each other");
    s.amax = static_cast<float>(members.real("amax", 0));
    if (!(*s.amax > 0 && *s.amax <= std::numeric_limits<float>::max()))
      members.refuse("amax", *amax, "a number that is above 0 and finite in fp32");
  }
  members.finish();
  return s;
}

Json to_json(const Storage& s) {
  const std::string name = s.plain() ? format_name(*s.plain()) : format_name(*s.block());
  Json json{{"format", name}};
  if (s.rounding.mode != RoundingMode::nearest_even) json["rounding"] = name_of(s.rounding.mode);
  if (s.rounding.random_bits != max_random_bits) json["random_bits"] = s.rounding.random_bits;
  if (s.rounding.overflow != Overflow::ieee) json["overflow"] = name_of(s.rounding.overflow);
  if (s.rounding.flush_outputs) json["flush_outputs"] = true;
  if (s.delayed)
    json["delayed"] = {{"length", s.delayed->length},
                       {"choice", amax_choices[static_cast<std::size_t>(s.delayed->choice)].first},
                       {"margin", s.delayed->margin}};
  if (s.amax) json["amax"] = static_cast<double>(*s.amax);
  return json.size() == 1 ? Json(name) : json;
}

std::string text_of(const Storage& s) {
  std::string text = s.plain() ? format_name(*s.plain()) : format_name(*s.block());
  if (s.rounding.mode != RoundingMode::nearest_even) text += " " + std::string(name_of(s.rounding.mode));
  if (s.rounding.overflow != Overflow::ieee) text += " saturating";
  if (s.rounding.flush_outputs) text += " flushing";
  if (s.delayed) text += " delayed";
  if (s.amax) text += " fixed";
  return text;
}

void store(const Storage& s, std::size_t columns, std::span<float> values, RandomStream random, Tally* tally,
           std::optional<float> amax) {
  if (const FloatFormat* const f = s.plain()) {
    if (!s.keeps_floats()) quantize(*f, s.rounding, values, values, random, tally);
    else if (tally)
      count_rows(values.size(), 1, *tally, [=](std::size_t begin, std::size_t end, Tally& own) {
        const SpecialFloats special = count_special(values.subspan(begin, end - begin));
        own.elements = end - begin, own.nan = special.nan, own.subnormal = special.subnormal;
      });
    return;
  }
  if (values.empty()) return;
  if (columns == 0) columns = values.size();
  std::vector<float> before;
  if (tally) before.assign(values.begin(), values.end());
  quantize_block_values(*s.block(), s.rounding, values, values.size() / columns, columns, values, {random, amax});
  if (!tally) return;
  count_rows(values.size(), 1, *tally, [&](std::size_t begin, std::size_t end, Tally& own) {
    const std::size_t size = end - begin;
    constexpr float no_limit = std::numeric_limits<float>::infinity();
    const RoundedElements lost = count_rounded(std::span(before).subspan(begin, size), values.subspan(begin, size),
                                               size, &no_limit);
    own.elements = size, own.nan = lost.nan, own.to_zero = lost.to_zero, own.inexact = lost.changed;
  });
}

}  // namespace halfulp::training
