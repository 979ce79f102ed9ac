#include <halfulp/hardware/unit_file.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/support/record.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <stdexcept>
#include <vector>

namespace halfulp {
namespace {

constexpr int largest_exponent = 16384;  // of e0: far beyond every format's

std::uint64_t code(const JsonValue& json) {
  std::uint64_t value = 0;
  const std::string word = json.json().is_string() ? json.text() : "";
  const auto [end, error] = std::from_chars(word.data() + (word.rfind("0x", 0) == 0 ? 2 : 0), word.data() + word.size(),
                                            value, 16);
  if (word.empty() || error != std::errc{} || end != word.data() + word.size())
    json.refuse("a code word in quotes, such as \"0x7fffffff\"");
  return value;
}

const Rule* rule_of(const JsonValue& json) {
  const std::string name = json.text();
  if (const Rule* rule = rules::find(name)) return rule;
  std::vector<std::string> names;
  for (const Rule* rule : rules::all()) names.emplace_back(rule->name);
  throw std::invalid_argument(unknown_name("rule", name, std::move(names)));
}

void read_least_exponent(const JsonValue& json, int& x) {
  if (!json.json().is_null() && !json.json().is_number_integer())
    json.refuse("an integer from -16384 to 16384, or null for none");
  x = json.json().is_null() ? FusedSum::no_least_exponent
                            : static_cast<int>(json.integer(-largest_exponent, largest_exponent));
}

Json least_exponent_json(int x) { return x == FusedSum::no_least_exponent ? Json() : Json(x); }

void read_order(const JsonValue& json, bool& descending) {
  if (json.json() != "ascending" && json.json() != "descending") json.refuse("\"ascending\", \"descending\"");
  descending = json.json() == "descending";
}

/// Units draw no random bits.
constexpr auto unit_roundings = [] {
  std::array<Named<RoundingMode>, std::size(rounding_modes) - 1> all{};
  std::size_t count = 0;
  for (const auto& row : rounding_modes)
    if (row.value != RoundingMode::stochastic) all[count++] = row;
  return all;
}();

}  // namespace

/// Every parameter of a unit. A unit is written with those that its rule looks at, and every one may be left out.
template <class V>
void fields(V& v, MatrixUnit& u) {
  constexpr auto format = spelled([](const std::string& name) { return parse_format(name); },
                                  [](const FloatFormat& f) { return format_name(f); }, "a format's name");
  const auto rule = by([](const JsonValue& json, const Rule*& x) { x = rule_of(json); },
                       [](const Rule* x) { return Json(x->name); }, "a rule's name");
  const auto nan = by([](const JsonValue& json, std::uint64_t& x) { x = code(json); },
                      [&](std::uint64_t x) { return Json(print_code(u.accumulator, x)); }, "a code word in quotes");
  const auto scale = by(
      [&](const JsonValue& json, FloatFormat& x) {
        if (json.json().is_null()) x = {}, u.scale_block = 0;
        else format.read(json, x);
      },
      [](const FloatFormat& x) { return Json(format_name(x)); }, "a format's name, or null");
  constexpr Whole extent = whole(1, 65536);
  v("name", u.name, optional);
  v("instruction", u.instruction, optional);
  v("a", u.a, format, optional);
  v("b", u.b, format, optional);
  v("accumulator", u.accumulator, format, optional);
  v("m", u.m, extent, optional);
  v("n", u.n, extent, optional);
  v("k", u.k, extent, optional);
  v("rule", u.rule, rule, optional);
  const Optional of_sum = optional_if(u.rule->takes != RuleTakes::length);
  const Optional of_all = optional_if(u.rule->takes == RuleTakes::all);
  v("length", u.sum.length, whole(1, 1024), optional);
  v("alignment_bits", u.sum.alignment_bits, whole(0, 60), of_sum);
  v("least_exponent", u.sum.least_exponent,
    by(read_least_exponent, least_exponent_json, "an integer from -16384 to 16384, or null for none"), of_sum);
  v("alignment", u.sum.alignment, named_in(unit_roundings), of_sum);
  v("kept", u.sum.kept, format, of_sum);
  v("rounding", u.sum.rounding, named_in(unit_roundings), of_sum);
  v("normalized_products", u.sum.normalized_products, of_all);
  v("flush_inputs", u.sum.flush_inputs, of_sum);
  v("flush_outputs", u.sum.flush_outputs, of_sum);
  v("zero_sign", u.sum.zero, named_in(zero_signs), of_sum);
  v("grouping", u.sum.grouping, named_in(groupings), of_all);
  v("order", u.sum.descending,
    by(
        read_order, [](bool x) { return Json(x ? "descending" : "ascending"); }, "\"ascending\", \"descending\""),
    of_all);
  v("nan", u.sum.nan, nan, optional);
  v("scale", u.scale, scale, optional_if(u.scaled()));
  v("scale_block", u.scale_block, extent, optional_if(u.scaled()));
  v("evidence", u.evidence, optional);
  v("source", u.source, optional);
}

namespace {

/// Whether rules differ in looking at a parameter; every rule may have scales.
bool is_of_rule(std::string_view name) { return name != "scale" && name != "scale_block"; }

/// What `halfulp units` and the papers call them.
constexpr std::pair<std::string_view, std::string_view> symbols[] = {
    {"L", "length"}, {"F", "alignment_bits"}, {"e0", "least_exponent"}};

std::string unknown_member(const std::string& key, std::vector<std::string> names) {
  for (const auto& [symbol, name] : symbols)
    if (key == symbol) return "unknown member '" + key + "'; it is called " + std::string(name);
  return unknown_name("member", key, std::move(names));
}

/// The defaults of an object.
MatrixUnit beginning(const Json& object, const std::string& file) {
  MatrixUnit unit;
  if (const auto base = object.find("based_on"); base != object.end()) {
    unit = JsonValue(*base, "based_on").parsed([](const std::string& name) { return find_unit(name); });
    unit.evidence = "described in " + file + ", after " + unit.name;
    unit.name += "*";
    unit.instruction = "none: a unit of your own", unit.source = file;
    return unit;
  }
  for (const char* needed : {"name", "a", "b", "accumulator", "k"})
    if (!object.contains(needed))
      throw std::invalid_argument(std::string(needed) +
                                  " is missing; accepted: a unit with name, a, b, accumulator and k, or with based_on");
  unit.rule = &rules::fused;
  unit.evidence = "described in " + file;
  unit.instruction = "none: a unit of your own", unit.source = file;
  return unit;
}

/// Names go into tables, reports and command lines. A unit of the table is what the table says: one that was changed
/// and kept its name gets a *.
void check_name(MatrixUnit& unit) {
  constexpr std::size_t longest = 80;
  const std::string& name = unit.name;
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || std::string_view("._-+*").find(static_cast<char>(c)) != std::string::npos);
  });
  if (name.empty() || name.size() > longest || !plain)
    throw std::invalid_argument("name is '" + shown(name) + "'; accepted: 1 to " + std::to_string(longest) +
                                " letters, digits and ._-+*");
  const auto known = std::find_if(matrix_units().begin(), matrix_units().end(),
                                  [&](const MatrixUnit& u) { return u.name == name; });
  if (known == matrix_units().end()) return;
  MatrixUnit same = unit;  // what computes nothing may differ
  same.instruction = known->instruction, same.evidence = known->evidence, same.source = known->source;
  if (same != *known) unit.name += "*";
}

MatrixUnit read_unit(const Json& object, const std::string& file) {
  if (!object.is_object())
    throw std::invalid_argument("the top is not an object; accepted: one matrix unit, {\"name\": ...}");
  MatrixUnit any;
  any.rule = &rules::fused;
  std::vector<std::string> names{"based_on"};
  for (const auto& field : fields_of(any)) names.push_back(field.name);
  for (const auto& [key, value] : object.items())
    if (std::find(names.begin(), names.end(), key) == names.end())
      throw std::invalid_argument(unknown_member(key, names));

  MatrixUnit unit = beginning(object, file);
  FieldReader<RecordLayout::object> reader(JsonValue(object, ""));
  fields(reader, unit);
  const auto changed = [&](const char* key) { return object.contains(key) || !object.contains("based_on"); };
  if (!object.contains("length") && !object.contains("based_on")) unit.sum.length = std::min(unit.k, 1024);
  if (!object.contains("kept") && changed("accumulator") && unit.rule->takes != RuleTakes::length)
    unit.sum.kept = unit.accumulator;
  if (!object.contains("nan") && changed("accumulator") && unit.accumulator.has_nan())
    unit.sum.nan = unit.accumulator.nonfinite == NonFinite::ieee ? unit.accumulator.magnitude_mask()
                                                                 : unit.accumulator.canonical_nan();
  if (!object.contains("nan") && unit.accumulator.has_nan() && !refusal(unit).empty()) {
    MatrixUnit canonical = unit;  // as rules that pass on the NaNs of operands need it
    canonical.sum.nan = unit.accumulator.canonical_nan();
    if (refusal(canonical).empty()) unit = canonical;
  }
  if (unit.scale != FloatFormat{} && !unit.scaled())
    throw std::invalid_argument("scale is there without scale_block, the number of products that share one");
  std::string taken;
  const std::vector<FieldLister::Field> parameters = fields_of(unit);
  for (const auto& p : parameters)
    if (is_of_rule(p.name) && p.written) taken += (taken.empty() ? "" : ", ") + p.name;
  for (const auto& p : parameters)
    if (is_of_rule(p.name) && !p.written && object.contains(p.name))
      throw std::invalid_argument(p.name + ": the rule " + std::string(unit.rule->name) +
                                  " does not look at it; accepted: " + taken);
  if (std::string why = refusal(unit); !why.empty()) throw std::invalid_argument(why);
  check_name(unit);
  return unit;
}

}  // namespace

Json unit_to_json(const MatrixUnit& unit) { return record_json(unit); }

MatrixUnit unit_of_json(const Json& object, const std::string& file) {
  try {
    return read_unit(object, file);
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(file + ": " + error.what()); }
}

MatrixUnit read_unit_file(const std::string& path) { return unit_of_json(read_json(path), path); }

}  // namespace halfulp
