#include <halfulp/hardware/matrix/unit_file.hpp>

#include <halfulp/emulation/names.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/units/rules.hpp>
#include <halfulp/formats/nearest.hpp>
#include <halfulp/hardware/json_file.hpp>

#include <array>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

using Json = nlohmann::ordered_json;

/// A member of the object, and what is wrong with it.
struct Member {
  const std::string& name;
  const Json& json;

  [[noreturn]] void refuse(const std::string& accepted) const {
    throw std::invalid_argument(name + " is " + shown(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "; accepted: " + accepted);
  }
  /// What `read` gives; its error with the member's name before it.
  template <class Read>
  auto within(Read&& read) const {
    try {
      return read();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(name + ": " + error.what());
    }
  }
  std::string text() const {
    if (!json.is_string()) refuse("text in quotes");
    return json.get<std::string>();
  }
  int integer(int least, int most) const {
    if (!json.is_number_integer() || json < least || json > most)
      refuse("an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return json.get<int>();
  }
  bool boolean() const {
    if (!json.is_boolean()) refuse("true, false");
    return json.get<bool>();
  }
  FloatFormat format() const {
    if (!json.is_string()) refuse("the name of a format in quotes");
    return within([&] { return parse_format(json.get<std::string>()); });
  }
  template <class T, std::size_t N>
  T named(const std::array<Named<T>, N>& table) const {
    if (!json.is_string()) refuse("a name in quotes");
    return within([&] { return value_named(table, "name", json.get<std::string>()); });
  }
  std::uint64_t code() const {
    std::uint64_t value = 0;
    const std::string word = json.is_string() ? json.get<std::string>() : "";
    const auto [end, error] = std::from_chars(word.data() + (word.rfind("0x", 0) == 0 ? 2 : 0), word.data() + word.size(), value, 16);
    if (word.empty() || error != std::errc{} || end != word.data() + word.size()) refuse("a code word in quotes, such as \"0x7fffffff\"");
    return value;
  }
};

/// Which units have a parameter.
enum class Of : std::uint8_t { every, sum, all, scaled };

struct Parameter {
  std::string_view name;
  Of of;
  Json (*write)(const MatrixUnit& unit);
  void (*read)(MatrixUnit& unit, const Member& member);
};

const Rule* rule_of(const Member& member) {
  const std::string name = member.text();
  if (const Rule* rule = rules::find(name)) return rule;
  std::vector<std::string> names;
  for (const Rule* rule : rules::all()) names.emplace_back(rule->name);
  throw std::invalid_argument(unknown_name("rule", name, std::move(names)));
}

constexpr int largest_exponent = 16384;  // of e0: far beyond every format's

// clang-format off
constexpr Parameter parameters[] = {
  {"name",        Of::every, [](const MatrixUnit& u) { return Json(u.name); },                     [](MatrixUnit& u, const Member& m) { u.name = m.text(); }},
  {"instruction", Of::every, [](const MatrixUnit& u) { return Json(u.instruction); },              [](MatrixUnit& u, const Member& m) { u.instruction = m.text(); }},
  {"a",           Of::every, [](const MatrixUnit& u) { return Json(format_name(u.a)); },           [](MatrixUnit& u, const Member& m) { u.a = m.format(); }},
  {"b",           Of::every, [](const MatrixUnit& u) { return Json(format_name(u.b)); },           [](MatrixUnit& u, const Member& m) { u.b = m.format(); }},
  {"accumulator", Of::every, [](const MatrixUnit& u) { return Json(format_name(u.accumulator)); }, [](MatrixUnit& u, const Member& m) { u.accumulator = m.format(); }},
  {"m",           Of::every, [](const MatrixUnit& u) { return Json(u.m); },                        [](MatrixUnit& u, const Member& m) { u.m = m.integer(1, 65536); }},
  {"n",           Of::every, [](const MatrixUnit& u) { return Json(u.n); },                        [](MatrixUnit& u, const Member& m) { u.n = m.integer(1, 65536); }},
  {"k",           Of::every, [](const MatrixUnit& u) { return Json(u.k); },                        [](MatrixUnit& u, const Member& m) { u.k = m.integer(1, 65536); }},
  {"rule",        Of::every, [](const MatrixUnit& u) { return Json(u.rule->name); },               [](MatrixUnit& u, const Member& m) { u.rule = rule_of(m); }},
  {"length",      Of::every, [](const MatrixUnit& u) { return Json(u.sum.length); },               [](MatrixUnit& u, const Member& m) { u.sum.length = m.integer(1, 1024); }},
  {"alignment_bits", Of::sum, [](const MatrixUnit& u) { return Json(u.sum.alignment_bits); },      [](MatrixUnit& u, const Member& m) { u.sum.alignment_bits = m.integer(0, 60); }},
  {"least_exponent", Of::sum,
    [](const MatrixUnit& u) { return u.sum.least_exponent == FusedSum::no_least_exponent ? Json(nullptr) : Json(u.sum.least_exponent); },
    [](MatrixUnit& u, const Member& m) {
      if (!m.json.is_null() && !m.json.is_number_integer()) m.refuse("an integer from -16384 to 16384, or null for none");
      u.sum.least_exponent = m.json.is_null() ? FusedSum::no_least_exponent : m.integer(-largest_exponent, largest_exponent);
    }},
  {"alignment",   Of::sum, [](const MatrixUnit& u) { return Json(name_of(u.sum.alignment)); },     [](MatrixUnit& u, const Member& m) { u.sum.alignment = m.named(rounding_modes); }},
  {"kept",        Of::sum, [](const MatrixUnit& u) { return Json(format_name(u.sum.kept)); },      [](MatrixUnit& u, const Member& m) { u.sum.kept = m.format(); }},
  {"rounding",    Of::sum, [](const MatrixUnit& u) { return Json(name_of(u.sum.rounding)); },      [](MatrixUnit& u, const Member& m) { u.sum.rounding = m.named(rounding_modes); }},
  {"normalized_products", Of::all, [](const MatrixUnit& u) { return Json(u.sum.normalized_products); }, [](MatrixUnit& u, const Member& m) { u.sum.normalized_products = m.boolean(); }},
  {"flush_inputs",  Of::sum, [](const MatrixUnit& u) { return Json(u.sum.flush_inputs); },         [](MatrixUnit& u, const Member& m) { u.sum.flush_inputs = m.boolean(); }},
  {"flush_outputs", Of::sum, [](const MatrixUnit& u) { return Json(u.sum.flush_outputs); },        [](MatrixUnit& u, const Member& m) { u.sum.flush_outputs = m.boolean(); }},
  {"zero_sign",   Of::sum, [](const MatrixUnit& u) { return Json(name_in(zero_signs, u.sum.zero)); },    [](MatrixUnit& u, const Member& m) { u.sum.zero = m.named(zero_signs); }},
  {"grouping",    Of::all, [](const MatrixUnit& u) { return Json(name_in(groupings, u.sum.grouping)); }, [](MatrixUnit& u, const Member& m) { u.sum.grouping = m.named(groupings); }},
  {"order",       Of::all, [](const MatrixUnit& u) { return Json(u.sum.descending ? "descending" : "ascending"); },
    [](MatrixUnit& u, const Member& m) {
      if (m.json != "ascending" && m.json != "descending") m.refuse("\"ascending\", \"descending\"");
      u.sum.descending = m.json == "descending";
    }},
  {"nan",         Of::every, [](const MatrixUnit& u) { return Json(print_code(u.accumulator, u.sum.nan)); }, [](MatrixUnit& u, const Member& m) { u.sum.nan = m.code(); }},
  {"scale",       Of::scaled, [](const MatrixUnit& u) { return Json(format_name(u.scale)); },
    [](MatrixUnit& u, const Member& m) {
      if (m.json.is_null()) u.scale = {}, u.scale_block = 0;
      else u.scale = m.format();
    }},
  {"scale_block", Of::scaled, [](const MatrixUnit& u) { return Json(u.scale_block); },             [](MatrixUnit& u, const Member& m) { u.scale_block = m.integer(1, 65536); }},
  {"evidence",    Of::every, [](const MatrixUnit& u) { return Json(u.evidence); },                 [](MatrixUnit& u, const Member& m) { u.evidence = m.text(); }},
  {"source",      Of::every, [](const MatrixUnit& u) { return Json(u.source); },                   [](MatrixUnit& u, const Member& m) { u.source = m.text(); }},
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
constexpr std::pair<std::string_view, std::string_view> symbols[] = {{"L", "length"}, {"F", "alignment_bits"}, {"e0", "least_exponent"}};

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
    const std::string key = "based_on";
    const Member member{key, *base};
    unit = member.within([&] { return find_unit(member.text()); });
    unit.evidence = file + ", after " + unit.name;
    unit.name += "*";
    return unit;
  }
  for (const char* needed : {"name", "a", "b", "accumulator", "k"})
    if (!object.contains(needed)) throw std::invalid_argument(std::string(needed) + " is missing; accepted: a unit with name, a, b, accumulator and k, or with based_on");
  unit.rule = &rules::fused;
  unit.evidence = file;
  return unit;
}

MatrixUnit read_unit(const Json& object, const std::string& file) {
  if (!object.is_object()) throw std::invalid_argument("the top is not an object; accepted: one matrix unit, {\"name\": ...}");
  std::vector<std::string> names{"based_on"};
  for (const Parameter& p : parameters) names.emplace_back(p.name);
  for (const auto& [key, value] : object.items())
    if (key != "based_on" && !find(key)) throw std::invalid_argument(unknown_member(key, names));

  MatrixUnit unit = beginning(object, file);
  for (const Parameter& p : parameters) {
    const auto at = object.find(std::string(p.name));
    if (at != object.end()) p.read(unit, {at.key(), *at});
  }
  const auto changed = [&](const char* key) { return object.contains(key) || !object.contains("based_on"); };
  if (!object.contains("length") && !object.contains("based_on")) unit.sum.length = std::min(unit.k, 1024);
  if (!object.contains("kept") && changed("accumulator") && unit.rule->takes != RuleTakes::length) unit.sum.kept = unit.accumulator;
  if (!object.contains("nan") && changed("accumulator") && unit.accumulator.has_nan())
    unit.sum.nan = unit.accumulator.nonfinite == NonFinite::ieee ? unit.accumulator.magnitude_mask() : unit.accumulator.canonical_nan();
  if (unit.scale != FloatFormat{} && !unit.scaled()) throw std::invalid_argument("scale is there without scale_block, the number of products that share one");
  for (const auto& [key, value] : object.items()) {
    const Parameter* p = find(key);
    if (!p || p->of == Of::scaled || has(unit, *p)) continue;
    std::string taken;
    for (const Parameter& other : parameters)
      if (other.of != Of::scaled && has(unit, other)) taken += (taken.empty() ? "" : ", ") + std::string(other.name);
    throw std::invalid_argument(key + ": the rule " + std::string(unit.rule->name) + " does not look at it; accepted: " + taken);
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
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(file + ": " + error.what());
  }
}

MatrixUnit read_unit_file(const std::string& path) { return unit_of_json(read_json(path), path); }

}  // namespace halfulp
