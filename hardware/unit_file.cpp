#include <halfulp/hardware/unit_file.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/support/json.hpp>

#include <array>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

int integer(const JsonValue& m, int least, int most) { return static_cast<int>(m.integer(least, most)); }
FloatFormat format(const JsonValue& m) {
  return m.parsed([](const std::string& name) { return parse_format(name); });
}
std::uint64_t code(const JsonValue& m) {
  std::uint64_t value = 0;
  const std::string word = m.json().is_string() ? m.text() : "";
  const auto [end, error] = std::from_chars(word.data() + (word.rfind("0x", 0) == 0 ? 2 : 0), word.data() + word.size(),
                                            value, 16);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size())
    m.refuse("a code word in quotes, such as \"0x7fffffff\"");
  return value;
}

/// Which units have a parameter.
enum class Of : std::uint8_t { every, sum, all, scaled };

struct Parameter {
  std::string_view name;
  Of of;
  Json (*write)(const MatrixUnit& unit);
  void (*read)(MatrixUnit& unit, const JsonValue& member);
};

const Rule* rule_of(const JsonValue& member) {
  const std::string name = member.text();
  if (const Rule* rule = rules::find(name)) return rule;
  std::vector<std::string> names;
  for (const Rule* rule : rules::all()) names.emplace_back(rule->name);
  throw std::invalid_argument(unknown_name("rule", name, std::move(names)));
}

constexpr int largest_exponent = 16384;  // of e0: far beyond every format's

// clang-format off
constexpr Parameter parameters[] = {
  {"name",        Of::every, [](const MatrixUnit& u) { return Json(u.name); },                     [](MatrixUnit& u, const JsonValue& m) { u.name = m.text(); }},
  {"instruction", Of::every, [](const MatrixUnit& u) { return Json(u.instruction); },              [](MatrixUnit& u, const JsonValue& m) { u.instruction = m.text(); }},
  {"a",           Of::every, [](const MatrixUnit& u) { return Json(format_name(u.a)); },           [](MatrixUnit& u, const JsonValue& m) { u.a = format(m); }},
  {"b",           Of::every, [](const MatrixUnit& u) { return Json(format_name(u.b)); },           [](MatrixUnit& u, const JsonValue& m) { u.b = format(m); }},
  {"accumulator", Of::every, [](const MatrixUnit& u) { return Json(format_name(u.accumulator)); }, [](MatrixUnit& u, const JsonValue& m) { u.accumulator = format(m); }},
  {"m",           Of::every, [](const MatrixUnit& u) { return Json(u.m); },                        [](MatrixUnit& u, const JsonValue& m) { u.m = integer(m, 1, 65536); }},
  {"n",           Of::every, [](const MatrixUnit& u) { return Json(u.n); },                        [](MatrixUnit& u, const JsonValue& m) { u.n = integer(m, 1, 65536); }},
  {"k",           Of::every, [](const MatrixUnit& u) { return Json(u.k); },                        [](MatrixUnit& u, const JsonValue& m) { u.k = integer(m, 1, 65536); }},
  {"rule",        Of::every, [](const MatrixUnit& u) { return Json(u.rule->name); },               [](MatrixUnit& u, const JsonValue& m) { u.rule = rule_of(m); }},
  {"length",      Of::every, [](const MatrixUnit& u) { return Json(u.sum.length); },               [](MatrixUnit& u, const JsonValue& m) { u.sum.length = integer(m, 1, 1024); }},
  {"alignment_bits", Of::sum, [](const MatrixUnit& u) { return Json(u.sum.alignment_bits); },      [](MatrixUnit& u, const JsonValue& m) { u.sum.alignment_bits = integer(m, 0, 60); }},
  {"least_exponent", Of::sum,
    [](const MatrixUnit& u) { return u.sum.least_exponent == FusedSum::no_least_exponent ? Json(nullptr) : Json(u.sum.least_exponent); },
    [](MatrixUnit& u, const JsonValue& m) {
      if (!m.json().is_null() && !m.json().is_number_integer()) m.refuse("an integer from -16384 to 16384, or null for none");
      u.sum.least_exponent = m.json().is_null() ? FusedSum::no_least_exponent : integer(m, -largest_exponent, largest_exponent);
    }},
  {"alignment",   Of::sum, [](const MatrixUnit& u) { return Json(name_of(u.sum.alignment)); },     [](MatrixUnit& u, const JsonValue& m) { u.sum.alignment = m.named(rounding_modes); }},
  {"kept",        Of::sum, [](const MatrixUnit& u) { return Json(format_name(u.sum.kept)); },      [](MatrixUnit& u, const JsonValue& m) { u.sum.kept = format(m); }},
  {"rounding",    Of::sum, [](const MatrixUnit& u) { return Json(name_of(u.sum.rounding)); },      [](MatrixUnit& u, const JsonValue& m) { u.sum.rounding = m.named(rounding_modes); }},
  {"normalized_products", Of::all, [](const MatrixUnit& u) { return Json(u.sum.normalized_products); }, [](MatrixUnit& u, const JsonValue& m) { u.sum.normalized_products = m.boolean(); }},
  {"flush_inputs",  Of::sum, [](const MatrixUnit& u) { return Json(u.sum.flush_inputs); },         [](MatrixUnit& u, const JsonValue& m) { u.sum.flush_inputs = m.boolean(); }},
  {"flush_outputs", Of::sum, [](const MatrixUnit& u) { return Json(u.sum.flush_outputs); },        [](MatrixUnit& u, const JsonValue& m) { u.sum.flush_outputs = m.boolean(); }},
  {"zero_sign",   Of::sum, [](const MatrixUnit& u) { return Json(name_in(zero_signs, u.sum.zero)); },    [](MatrixUnit& u, const JsonValue& m) { u.sum.zero = m.named(zero_signs); }},
  {"grouping",    Of::all, [](const MatrixUnit& u) { return Json(name_in(groupings, u.sum.grouping)); }, [](MatrixUnit& u, const JsonValue& m) { u.sum.grouping = m.named(groupings); }},
  {"order",       Of::all, [](const MatrixUnit& u) { return Json(u.sum.descending ? "descending" : "ascending"); },
    [](MatrixUnit& u, const JsonValue& m) {
      if (m.json() != "ascending" && m.json() != "descending") m.refuse("\"ascending\", \"descending\"");
      u.sum.descending = m.json() == "descending";
    }},
  {"nan",         Of::every, [](const MatrixUnit& u) { return Json(print_code(u.accumulator, u.sum.nan)); }, [](MatrixUnit& u, const JsonValue& m) { u.sum.nan = code(m); }},
  {"scale",       Of::scaled, [](const MatrixUnit& u) { return Json(format_name(u.scale)); },
    [](MatrixUnit& u, const JsonValue& m) {
      if (m.json().is_null()) u.scale = {}, u.scale_block = 0;
      else u.scale = format(m);
    }},
  {"scale_block", Of::scaled, [](const MatrixUnit& u) { return Json(u.scale_block); },             [](MatrixUnit& u, const JsonValue& m) { u.scale_block = integer(m, 1, 65536); }},
  {"evidence",    Of::every, [](const MatrixUnit& u) { return Json(u.evidence); },                 [](MatrixUnit& u, const JsonValue& m) { u.evidence = m.text(); }},
  {"source",      Of::every, [](const MatrixUnit& u) { return Json(u.source); },                   [](MatrixUnit& u, const JsonValue& m) { u.source = m.text(); }},
};
// clang-format on

bool has(const MatrixUnit& unit, const Parameter& parameter) {
  switch (parameter.of) {
    case Of::every: break;
    case Of::sum: return unit.rule->takes != RuleTakes::length;
    case Of::all: return unit.rule->takes == RuleTakes::all;
    case Of::scaled: return unit.scaled();
  }
  return true;
}

/// What `halfulp units` and the papers call them.
constexpr std::pair<std::string_view, std::string_view> symbols[] = {
    {"L", "length"}, {"F", "alignment_bits"}, {"e0", "least_exponent"}};

std::string unknown_member(const std::string& key, std::vector<std::string> names) {
  for (const auto& [symbol, name] : symbols)
    if (key == symbol) return "unknown member '" + key + "'; it is called " + std::string(name);
  return unknown_name("member", key, std::move(names));
}

const Parameter* find(std::string_view name) {
  for (const Parameter& p : parameters)
    if (p.name == name) return &p;
  return nullptr;
}

/// What holds where the object says nothing.
MatrixUnit beginning(const Json& object, const std::string& file) {
  MatrixUnit unit;
  if (const auto base = object.find("based_on"); base != object.end()) {
    unit = JsonValue(*base, "based_on").parsed([](const std::string& name) { return find_unit(name); });
    unit.evidence = file + ", after " + unit.name;
    unit.name += "*";
    return unit;
  }
  for (const char* needed : {"name", "a", "b", "accumulator", "k"})
    if (!object.contains(needed))
      throw std::invalid_argument(std::string(needed) +
                                  " is missing; accepted: a unit with name, a, b, accumulator and k, or with based_on");
  unit.rule = &rules::fused;
  unit.evidence = file;
  return unit;
}

MatrixUnit read_unit(const Json& object, const std::string& file) {
  if (!object.is_object())
    throw std::invalid_argument("the top is not an object; accepted: one matrix unit, {\"name\": ...}");
  std::vector<std::string> names{"based_on"};
  for (const Parameter& p : parameters) names.emplace_back(p.name);
  for (const auto& [key, value] : object.items())
    if (key != "based_on" && !find(key)) throw std::invalid_argument(unknown_member(key, names));

  MatrixUnit unit = beginning(object, file);
  for (const Parameter& p : parameters) {
    const auto at = object.find(std::string(p.name));
    if (at != object.end()) p.read(unit, JsonValue(*at, at.key()));
  }
  const auto changed = [&](const char* key) { return object.contains(key) || !object.contains("based_on"); };
  if (!object.contains("length") && !object.contains("based_on")) unit.sum.length = std::min(unit.k, 1024);
  if (!object.contains("kept") && changed("accumulator") && unit.rule->takes != RuleTakes::length)
    unit.sum.kept = unit.accumulator;
  if (!object.contains("nan") && changed("accumulator") && unit.accumulator.has_nan())
    unit.sum.nan = unit.accumulator.nonfinite == NonFinite::ieee ? unit.accumulator.magnitude_mask()
                                                                 : unit.accumulator.canonical_nan();
  if (unit.scale != FloatFormat{} && !unit.scaled())
    throw std::invalid_argument("scale is there without scale_block, the number of products that share one");
  for (const auto& [key, value] : object.items()) {
    const Parameter* p = find(key);
    if (!p || p->of == Of::scaled || has(unit, *p)) continue;
    std::string taken;
    for (const Parameter& other : parameters)
      if (other.of != Of::scaled && has(unit, other)) taken += (taken.empty() ? "" : ", ") + std::string(other.name);
    throw std::invalid_argument(key + ": the rule " + std::string(unit.rule->name) +
                                " does not look at it; accepted: " + taken);
  }
  if (std::string why = refusal(unit); !why.empty()) throw std::invalid_argument(why);
  return unit;
}

}  // namespace

nlohmann::ordered_json unit_to_json(const MatrixUnit& unit) {
  Json object;
  for (const Parameter& p : parameters)
    if (has(unit, p)) object[std::string(p.name)] = p.write(unit);
  return object;
}

MatrixUnit unit_of_json(const nlohmann::ordered_json& object, const std::string& file) {
  try {
    return read_unit(object, file);
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(file + ": " + error.what()); }
}

MatrixUnit read_unit_file(const std::string& path) { return unit_of_json(read_json(path), path); }

}  // namespace halfulp
