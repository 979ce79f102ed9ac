#include <halfulp/support/spelling.hpp>
#include <halfulp/emulation/product/model.hpp>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <stdexcept>

namespace halfulp {
namespace {

enum class Flush : std::uint8_t { none, inputs, outputs, both };
constexpr std::array<Named<Flush>, 4> flushes{
    {{"none", Flush::none}, {"inputs", Flush::inputs}, {"outputs", Flush::outputs}, {"both", Flush::both}}};

template <class T>
T number(std::string_view what, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw std::invalid_argument(std::string(what) + " is a whole number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", not '" + shown(text) + "'");
  return value;
}

/// One property of a Rounding and its text.
struct Property {
  std::string_view key;
  void (*set)(Rounding&, std::string_view);
  std::string (*get)(const Rounding&);
};
// clang-format off
constexpr Property properties[] = {
  {"round", [](Rounding& r, std::string_view v) { r.mode = parse_rounding_mode(v); }, [](const Rounding& r) { return std::string(name_of(r.mode)); }},
  {"overflow", [](Rounding& r, std::string_view v) { r.overflow = value_named(overflow_rules, "overflow rule", v); }, [](const Rounding& r) { return std::string(name_of(r.overflow)); }},
  {"flush",
   [](Rounding& r, std::string_view v) {
     const Flush flush = value_named(flushes, "flush", v);
     r.flush_inputs = flush == Flush::inputs || flush == Flush::both, r.flush_outputs = flush == Flush::outputs || flush == Flush::both;
   },
   [](const Rounding& r) { return std::string(flushes[(r.flush_inputs ? 1 : 0) + (r.flush_outputs ? 2 : 0)].name); }},
  {"nan", [](Rounding& r, std::string_view v) { r.nan = value_named(nan_rules, "NaN rule", v); }, [](const Rounding& r) { return std::string(name_of(r.nan)); }},
  {"variant", [](Rounding& r, std::string_view v) { r.variant = value_named(stochastic_variants, "stochastic variant", v); }, [](const Rounding& r) { return std::string(name_in(stochastic_variants, r.variant)); }},
  {"bits", [](Rounding& r, std::string_view v) { r.random_bits = number("bits", v, 1, max_random_bits); }, [](const Rounding& r) { return std::to_string(r.random_bits); }},
  {"tininess", [](Rounding& r, std::string_view v) { r.tininess = value_named(tininess_rules, "tininess", v); }, [](const Rounding& r) { return std::string(name_in(tininess_rules, r.tininess)); }},
};
// clang-format on

const Property* property(std::string_view key) {
  const auto* found = std::find_if(std::begin(properties), std::end(properties),
                                   [&](const Property& p) { return p.key == key; });
  return found == std::end(properties) ? nullptr : found;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = text.find(at)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

/// A stage as written; what it says of rounding is applied to what all stages have.
struct Written {
  std::string_view text;
  FloatFormat format() const { return parse_format(split(text, '/').front()); }
  Stage stage(const Rounding& common) const {
    const auto parts = split(text, '/');
    Stage stage{format(), common};
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const auto colon = parts[i].find(':');
      if (colon == std::string_view::npos) {
        properties[0].set(stage.rounding, parts[i]);
        continue;
      }
      const std::string_view key = parts[i].substr(0, colon);
      const Property* p = property(key);
      if (!p) {
        std::vector<std::string> names;
        for (const Property& known : properties) names.emplace_back(known.key);
        throw std::invalid_argument(unknown_name("property of a stage", key, names));
      }
      p->set(stage.rounding, parts[i].substr(colon + 1));
    }
    return stage;
  }
};

void set_order(DotModel& m, std::string_view text) {
  const auto parts = split(text, ':');
  m.order = value_named(orders, "order", parts[0]);
  const std::size_t most = static_cast<std::size_t>(-1);
  std::size_t at = 1;
  const auto next = [&](std::string_view what, std::size_t least) {
    if (at == parts.size())
      throw std::invalid_argument("order " + std::string(parts[0]) + " takes a " + std::string(what) + ", as in " +
                                  std::string(parts[0]) + ":8");
    return number<std::size_t>(what, parts[at++], least, most);
  };
  switch (m.order) {
    case Order::sequential: break;
    case Order::blocked: m.block = next("block", 1); break;
    case Order::pairwise:
      if (parts.size() > 1) m.block = next("block", 1);
      break;
    case Order::tree:
      m.width = next("width", 2);
      if (parts.size() > 2) m.block = next("block", 1);
      break;
    case Order::interleaved: m.width = next("number of lanes", 1); break;
  }
  if (at != parts.size())
    throw std::invalid_argument("order " + std::string(parts[0]) + " takes no '" + shown(parts[at]) + "'");
}

std::string order_text(const DotModel& m) {
  std::string text(name_in(orders, m.order));
  if (m.order == Order::tree || m.order == Order::interleaved) text += ':' + std::to_string(m.width);
  if (m.order == Order::blocked || ((m.order == Order::pairwise || m.order == Order::tree) && m.block != 1))
    text += ':' + std::to_string(m.block);
  return text;
}

DotModel parse_dot_model(std::string_view text) {
  DotModel m;
  Rounding common;
  std::optional<FloatFormat> bare, in;
  std::optional<Written> mul, acc, promote, out;
  std::vector<std::string_view> seen;
  bool exact = false;
  for (const std::string_view item : split(text, ',')) {
    const auto equals = item.find('=');
    const std::string_view key = item.substr(0, equals),
                           value = equals == std::string_view::npos ? item : item.substr(equals + 1);
    if (item.empty() && !text.empty()) throw std::invalid_argument("nothing stands beside a comma");
    if (std::find(seen.begin(), seen.end(), equals == std::string_view::npos ? "" : key) != seen.end())
      throw std::invalid_argument(equals == std::string_view::npos ? "a second format, '" + shown(item) + "'"
                                                                   : "'" + shown(key) + "' is said twice");
    seen.push_back(equals == std::string_view::npos ? "" : key);
    if (equals == std::string_view::npos) bare = parse_format(item);
    else if (key == "in") in = parse_format(value);
    else if (key == "b") m.input_b = parse_format(value);
    else if (key == "mul" && value == "exact") exact = true;
    else if (key == "mul") mul = Written{value};
    else if (key == "acc") acc = Written{value};
    else if (key == "promote") promote = Written{value};
    else if (key == "out") out = Written{value};
    else if (key == "order") set_order(m, value);
    else if (key == "comp") m.compensation = value_named(compensations, "compensation", value);
    else if (key == "seed") m.seed = number<std::uint64_t>("seed", value, 0, static_cast<std::uint64_t>(-1));
    else if (const Property* p = property(key)) p->set(common, value);
    else {
      std::vector<std::string> names{"in", "b", "mul", "acc", "promote", "out", "order", "comp", "seed"};
      for (const Property& known : properties) names.emplace_back(known.key);
      throw std::invalid_argument(unknown_name("key", key, names));
    }
  }
  const auto stage = [&](const std::optional<Written>& own,
                         std::initializer_list<std::optional<FloatFormat>> otherwise) {
    if (own) return own->stage(common);
    for (const auto& f : otherwise)
      if (f) return Stage{*f, common};
    throw std::invalid_argument("no format is said; a model is as in fp16, or in=e4m3,acc=fp32");
  };
  const auto format = [](const std::optional<Written>& w) { return w ? std::optional(w->format()) : std::nullopt; };
  m.accumulator = stage(acc, {bare, format(mul), in});
  if (!exact) m.product = stage(mul, {bare, m.accumulator.format});
  m.input = in ? *in : bare ? *bare : mul ? mul->format() : m.accumulator.format;
  if (promote) m.promoted = promote->stage(common);
  if (out) m.output = out->stage(common);
  if (m.input_b == m.input) m.input_b.reset();
  return m;
}

std::string stage_text(const Stage& s, const Rounding& common) {
  std::string text = format_name(s.format);
  for (const Property& p : properties)
    if (p.get(s.rounding) != p.get(common))
      text += '/' + (p.key == "round" ? "" : std::string(p.key) + ':') + p.get(s.rounding);
  return text;
}

std::string dot_model_name(const DotModel& m) {
  const Rounding& common = m.accumulator.rounding;
  const bool one = m.input == m.accumulator.format;
  std::string text = one ? format_name(m.input) : "in=" + format_name(m.input);
  const auto add = [&](std::string_view key, const std::string& value) {
    text += ',' + std::string(key) + '=' + value;
  };
  if (m.input_b && *m.input_b != m.input) add("b", format_name(*m.input_b));
  if (!m.product) add("mul", "exact");
  else if (*m.product != m.accumulator) add("mul", stage_text(*m.product, common));
  if (!one) add("acc", format_name(m.accumulator.format));
  if (m.promoted) add("promote", stage_text(*m.promoted, common));
  if (m.output) add("out", stage_text(*m.output, common));
  if (m.order != Order::sequential) add("order", order_text(m));
  if (m.compensation != Compensation::none) add("comp", std::string(name_in(compensations, m.compensation)));
  if (m.seed != 0) add("seed", std::to_string(m.seed));
  for (const Property& p : properties)
    if (p.get(common) != p.get({})) add(p.key, p.get(common));
  return text;
}

}  // namespace

const FloatFormat& format_of_a(const ProductModel& model) {
  const auto* unit = std::get_if<MatrixUnit>(&model);
  return unit ? unit->a : std::get<DotModel>(model).input;
}
const FloatFormat& format_of_b(const ProductModel& model) {
  const auto* unit = std::get_if<MatrixUnit>(&model);
  return unit ? unit->b : std::get<DotModel>(model).second();
}
const FloatFormat& format_of_result(const ProductModel& model) {
  const auto* unit = std::get_if<MatrixUnit>(&model);
  return unit ? unit->accumulator : std::get<DotModel>(model).result();
}
int word_bits(const ProductModel& model, const FloatFormat& f) {
  return std::holds_alternative<MatrixUnit>(model) ? word_bits(f) : f.storage_bits();
}

std::string product_refusal(const ProductModel& model) {
  const auto* unit = std::get_if<MatrixUnit>(&model);
  return unit ? refusal(*unit) : dot_refusal(std::get<DotModel>(model));
}

ProductModel parse_product_model(std::string_view text) {
  try {
    const bool one_word = text.find_first_of("=,") == std::string_view::npos;
    if (one_word && text.find('.') != std::string_view::npos) return find_unit(text);
    for (std::string_view rest = text; !rest.empty();) {  // a unit's name among the members would pass for a format
      const std::string_view member = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), member.size() + 1));
      if (std::count(member.begin(), member.end(), '.') >= 2 && member.find('=') == std::string_view::npos)
        throw std::invalid_argument("'" + shown(member) +
                                    "' looks like a matrix unit, whose name stands alone: its sums have no options");
    }
    const DotModel model = parse_dot_model(text);
    if (const std::string why = dot_refusal(model); !why.empty()) throw std::invalid_argument(why);
    return model;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("product model '" + shown(text) + "': " + error.what());
  }
}

std::string product_model_name(const ProductModel& model) {
  const auto* unit = std::get_if<MatrixUnit>(&model);
  return unit ? unit->name : dot_model_name(std::get<DotModel>(model));
}

}  // namespace halfulp
