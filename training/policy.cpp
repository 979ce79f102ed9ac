#include <halfulp/training/policy.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/record.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp_policies_text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace halfulp::training {
namespace {

template <std::size_t N>
std::size_t index_of(const std::array<std::string_view, N>& names, const char* kind, const std::string& name,
                     const std::string& where) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw std::invalid_argument(where + ": " +
                                unknown_name(kind, name, std::vector<std::string>(names.begin(), names.end())));
  return static_cast<std::size_t>(found - names.begin());
}

constexpr std::array operand_roles{Role::weight, Role::activation, Role::gradient_of_activation};
constexpr std::array result_roles{Role::activation, Role::gradient_of_activation, Role::gradient_of_weight,
                                  Role::communication};

template <std::size_t N>
const Storage& in(const std::array<Role, N>& roles, const std::array<Storage, N>& storages, Role role) {
  const auto found = std::find(roles.begin(), roles.end(), role);
  if (found == roles.end()) throw std::logic_error("no storage for the role " + std::string(name_of(role)));
  return storages[static_cast<std::size_t>(found - roles.begin())];
}

/// A storage (storage.hpp).
struct Stored {
  void read(const JsonValue& json, Storage& x) const { x = parse_storage(json.json(), json.where()); }
  std::string accepted() const { return "a storage: a format's name, or an object with format, rounding, ..."; }
};
constexpr Stored stored;

/// One storage for all roles, or an object by role.
template <std::size_t N>
struct StoredByRole {
  const std::array<Role, N>& roles;
  void read(const JsonValue& json, std::array<std::optional<Storage>, N>& storages) const {
    const Json& all = json.json();
    if (!all.is_object() || all.contains("format")) {
      storages.fill(parse_storage(all, json.where()));
      return;
    }
    std::vector<std::string> names;
    for (const Role role : roles) names.emplace_back(name_of(role));
    for (const auto& [name, value] : all.items()) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        throw std::invalid_argument(json.where() + ": " + unknown_name("role", name, names, names.size()));
      storages[static_cast<std::size_t>(found - names.begin())] = parse_storage(value, json.where() + "." + name);
    }
  }
  std::string accepted() const { return "a storage, or an object of storages by role"; }
};

/// One model for all products, or an object by product.
struct Accumulated {
  void read(const JsonValue& json, std::array<std::optional<std::string>, 3>& accumulate) const {
    const auto text = [](const JsonValue& value) {
      if (!value.json().is_string()) value.refuse("a product model in quotes, as \"acc=fp32\"");
      return value.text();
    };
    if (!json.json().is_object()) {
      accumulate.fill(text(json));
      return;
    }
    for (const auto& [name, value] : json.json().items())
      accumulate[index_of(product_names, "product", name, json.where())] = text({value, json.where() + "." + name});
  }
  std::string accepted() const { return "a product model, or an object of models by product"; }
};

/// One name or a list of them.
struct Texts {
  void read(const JsonValue& json, std::vector<std::string>& all) const {
    all.clear();
    if (json.json().is_string()) return all.push_back(json.text());
    if (!json.json().is_array() || json.json().empty()) json.refuse("a name or a list of names");
    for (const Json& one : json.json()) {
      if (!one.is_string())
        throw std::invalid_argument(json.where() + " holds " + shown(one.dump()) + "; accepted: names in quotes");
      all.push_back(one.get<std::string>());
    }
  }
  std::string accepted() const { return "a name or a list of names"; }
};

void read_operators(const JsonValue& json, std::vector<OperatorKind>& operators) {
  std::vector<std::string> names;
  Texts{}.read(json, names);
  if (names.size() == 1 && names[0] == "all") return;
  for (const std::string& name : names)
    operators.push_back(static_cast<OperatorKind>(index_of(operator_names, "operator", name, json.where())));
}

void read_layers(const JsonValue& json, std::vector<std::string>& layers) {
  Texts{}.read(json, layers);
  for (const std::string& pattern : layers)
    if (std::count(pattern.begin(), pattern.end(), '*') > 1)
      throw std::invalid_argument(json.where() + ": '" + shown(pattern) + "' has more than one '*'");
}

void read_inside(const JsonValue& json, std::optional<FloatFormat>& inside) {
  const Storage storage = parse_storage(json.json(), json.where());
  if (!storage.plain() || !(storage.rounding == Rounding{}))
    throw std::invalid_argument(json.where() + ": only a format's name is accepted");
  inside = *storage.plain();
}

void read_arithmetic(const JsonValue& json, std::optional<Stage>& arithmetic) {
  const Storage s = parse_storage(json.json(), json.where());
  if (!s.plain()) throw std::invalid_argument(json.where() + ": a block format has no arithmetic; accepted: a format");
  if (!s.keeps_floats()) arithmetic = Stage{*s.plain(), s.rounding};
}

/// Two members of a policy set one UpdatePrecision.
struct WeightsOf {
  UpdatePrecision& u;
};
struct OptimizerOf {
  UpdatePrecision& u;
};

template <class V>
void fields(V& v, WeightsOf& w) {
  v("storage", w.u.weights, stored, optional);
  v("master", w.u.master_weights, optional);
  v("kahan", w.u.kahan, optional);
}

template <class V>
void fields(V& v, OptimizerOf& o) {
  const auto both = by([&](const JsonValue& json, Storage& first) { stored.read(json, first), o.u.second = first; },
                       stored.accepted());
  v("state", o.u.first, both, optional);
  v("first", o.u.first, stored, optional);
  v("second", o.u.second, stored, optional);
  v("arithmetic", o.u.arithmetic, by(read_arithmetic, "a format's name, or an object with format and rounding"),
    optional);
  v("rounded_constants", o.u.rounded_constants, optional);
}

constexpr std::array<Named<bool>, 2> scaling_kinds{{{"static", false}, {"dynamic", true}}};

}  // namespace

template <class V>
void fields(V& v, Policy::Rule& rule) {
  v("operators", rule.operators, by(read_operators, "\"all\", or names of operators"));
  v("layers", rule.layers, by(read_layers, "names of layers, with one '*' at most"), optional);
  v("operands", rule.operands, StoredByRole<3>{operand_roles}, optional);
  v("results", rule.results, StoredByRole<4>{result_roles}, optional);
  v("accumulate", rule.accumulate, Accumulated{}, optional);
  v("inside", rule.inside, by(read_inside, "a format's name"), optional);
  v("straight_through", rule.straight_through, if_given(Truth{}), optional);
}

template <class V>
void fields(V& v, LossScalerSettings& s) {
  v("kind", s.dynamic, chosen_from(scaling_kinds));
  v("scale", s.initial_scale, finite, optional);
  if (!s.dynamic) return v("skip", s.skip, optional);
  v("growth", s.growth_factor, finite, optional);
  v("backoff", s.backoff_factor, finite, optional);
  v("interval", s.growth_interval, whole(1, 1'000'000'000), optional);
}

namespace {

/// Only operands keep scales that do not follow from the values.
void refuse_foreign_scale(const Storage& s, const std::string& where) {
  if (s.delayed) throw std::invalid_argument(where + ": delayed scaling is for operands of products");
  if (s.amax) throw std::invalid_argument(where + ": a fixed amax is for operands of products");
}

Policy::Rule parse_rule(const Json& json, const std::string& where) {
  Policy::Rule rule;
  rule.json = json;
  read_record(json, where, rule);
  const std::string results = where + ".results";
  for (std::size_t i = 0; i < result_roles.size(); ++i) {
    const std::optional<Storage>& s = rule.results[i];
    if (!s) continue;
    // Results are rounded wherever they arise, and blocks do not know their shape there. What ranks exchange is one
    // long row.
    if (s->block() && result_roles[i] != Role::communication)
      throw std::invalid_argument(
          results + ": " + std::string(name_of(result_roles[i])) + " in " + text_of(*s) +
          "; accepted: a format without blocks (operands, optimizer states and communication take these)");
  }
  for (const std::optional<Storage>& s : rule.results)
    if (s) refuse_foreign_scale(*s, results);
  return rule;
}

void read_rules(const JsonValue& json, std::vector<Policy::Rule>& rules) {
  if (!json.json().is_array()) json.refuse("a list of objects");
  for (const Json& rule : json.json())
    rules.push_back(parse_rule(rule, json.where() + "[" + std::to_string(rules.size()) + "]"));
}

void read_weights(const JsonValue& json, UpdatePrecision& u) {
  WeightsOf members{u};
  read_record(json.json(), json.where(), members);
  refuse_foreign_scale(u.weights, json.where() + ".storage");
  if (u.kahan && u.master_weights)
    throw std::invalid_argument(json.where() + ": Kahan summation and fp32 master weights exclude each other");
}

void read_optimizer(const JsonValue& json, UpdatePrecision& u) {
  OptimizerOf members{u};
  read_record(json.json(), json.where(), members);
  for (const Storage* const s : {&u.first, &u.second}) refuse_foreign_scale(*s, json.where());
}

void read_loss_scaling(const JsonValue& json, std::optional<LossScalerSettings>& scaling) {
  scaling.reset();
  if (json.json().is_null()) return;
  if (!json.json().is_object()) json.refuse("null, or an object with kind, scale, ...");
  LossScalerSettings& s = scaling.emplace();
  read_record(json.json(), json.where(), s);
  if (!(static_cast<float>(s.initial_scale) > 0))
    throw std::invalid_argument(
        json.where() + fmt::format(".scale is {}; accepted: a number that is above 0 in fp32", s.initial_scale));
  try {
    LossScaler check(s);
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(json.where() + ": " + error.what()); }
}

/// Static and dynamic loss scaling have different members, so a base of the other kind gives none.
bool of_another_kind(const Json& json, const Json& base) {
  return json.contains("kind") && base.contains("kind") && json["kind"] != base["kind"];
}

/// A policy's members on top of those of its base.
Json with_base(const Json& json, const Json& base) {
  Json all = base;
  for (const auto& [name, value] : json.items()) {
    if (name == "base") continue;
    if (name == "rules" && value.is_array() && all.contains(name)) {
      for (const Json& rule : value) all[name].push_back(rule);
    } else if (name != "rules" && value.is_object() && all.contains(name) && all[name].is_object() &&
               !of_another_kind(value, all[name]))
      all[name].update(value);
    else all[name] = value;
  }
  return all;
}

/// Checkpoints are named after policies.
void read_name(const JsonValue& json, std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-+").find(c) != std::string_view::npos;
  };
  name = json.text();
  if (name.empty() || name.size() > 60 || name.front() == '.' || !std::all_of(name.begin(), name.end(), fits))
    json.refuse("at most 60 letters, digits, '.', '_', '-', '+', no '.' at first");
}

void read_line(const JsonValue& json, std::string& text) {
  text = json.text();
  if (text.size() > 400 || std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }))
    throw std::invalid_argument(json.where() + " is " + shown(text) + "; accepted: one line of at most 400 characters");
}

}  // namespace

template <class V>
void fields(V& v, Policy& p) {
  const auto line = by(read_line, "one line of at most 400 characters");
  v("name", p.name, by(read_name, "at most 60 letters, digits, '.', '_', '-', '+', no '.' at first"));
  v("title", p.title, line, otherwise(p.name));
  v("source", p.source, line, optional);
  v("rules", p.rules, by(read_rules, "a list of objects"), optional);
  v("weights", p.update, by(read_weights, "an object with storage, master, kahan"), optional);
  v("optimizer", p.update, by(read_optimizer, "an object with state, first, second, arithmetic, rounded_constants"),
    optional);
  v("loss_scaling", p.loss_scaling, by(read_loss_scaling, "null, or an object with kind, scale, ..."), optional);
}

namespace {

/// Makes the names of a record's fields known.
struct Knows {
  Members& members;
  void operator()(const char* name, auto&&...) { (void)members.find(name); }
};

/// `known` are the policies that may be a base.
Policy parse(const Json& json, const std::string& where, const std::vector<Policy>& known) {
  Members own(json, where, "an object with name, base, rules, weights, optimizer, loss_scaling");
  Json whole = json;
  if (const Json* const base = own.find("base")) {
    const std::string name = own.text("base");
    std::vector<std::string> names;
    const Policy* found = nullptr;
    for (const Policy& policy : known) {
      names.push_back(policy.name);
      if (policy.name == name) found = &policy;
    }
    if (!found) throw std::invalid_argument(where + ".base: " + unknown_name("policy", name, names));
    whole = with_base(json, found->json);
    if (!json.contains("title")) whole["title"] = name + ", changed";
    if (!json.contains("source")) whole["source"] = "";
  }
  Policy policy;
  Knows knows{own};
  fields(knows, policy);
  own.finish();
  read_record(whole, where, policy);
  policy.json = whole;

  // Every operator once, so that a wrong combination of rules is found before anything is trained.
  for (std::size_t kind = 0; kind < operator_names.size(); ++kind) {
    const auto operation = static_cast<OperatorKind>(kind);
    if (!multiplies(operation)) continue;
    const auto check = [&](std::string_view layer) {
      const OperatorPrecision p = policy.at(operation, layer);
      for (const Product which : {Product::forward, Product::to_input, Product::to_weight}) {
        const ProductRoles roles = roles_of(operation, which);
        const std::string at = where + ": " + std::string(operator_names[kind]) + ", product " +
                               std::string(name_of(which));
        operand_model(p.accumulate[static_cast<std::size_t>(which)], p.operand(which, roles.a),
                      p.operand(which, roles.b), at);
      }
      if (operation == OperatorKind::attention_scores || operation == OperatorKind::attention_values ||
          operation == OperatorKind::lstm_cell) {
        const std::string of = where + ": " + std::string(operator_names[kind]),
                          where_met_once = " is for linear and conv2d, where a tensor is met once a step";
        for (const Storage& s : p.operands)
          if (s.delayed) throw std::invalid_argument(of + ": delayed scaling" + where_met_once);
        if (p.straight_through) throw std::invalid_argument(of + ": straight_through" + where_met_once);
      }
    };
    check("");
    for (const Policy::Rule& rule : policy.rules)
      for (const std::string& layer : rule.layers) check(layer);
  }
  return policy;
}

}  // namespace

const Storage& OperatorPrecision::operand(Role role) const { return in(operand_roles, operands, role); }
const Storage& OperatorPrecision::operand(Product which, Role role) const {
  static const Storage as_it_is;
  return straight_through && which != Product::forward && role != Role::gradient_of_activation ? as_it_is
                                                                                               : operand(role);
}
const Storage& OperatorPrecision::result(Role role) const { return in(result_roles, results, role); }

Json to_json(const OperatorPrecision& precision) {
  Json json = {{"operands", Json::object()}, {"results", Json::object()}, {"accumulate", Json::object()}};
  for (const Role role : operand_roles) json["operands"][name_of(role)] = to_json(precision.operand(role));
  for (const Role role : result_roles) json["results"][name_of(role)] = to_json(precision.result(role));
  for (std::size_t i = 0; i < product_names.size(); ++i) json["accumulate"][product_names[i]] = precision.accumulate[i];
  json["inside"] = precision.inside ? Json(format_name(*precision.inside)) : Json();
  json["straight_through"] = precision.straight_through;
  return json;
}

bool Policy::Rule::speaks_of(OperatorKind kind) const {
  return operators.empty() || std::find(operators.begin(), operators.end(), kind) != operators.end();
}

void Policy::Rule::apply(OperatorPrecision& p) const {
  const auto change = [](const auto& from, auto& to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      if (from[i]) to[i] = *from[i];
  };
  change(operands, p.operands);
  change(results, p.results);
  change(accumulate, p.accumulate);
  if (inside) p.inside = *inside == fp32 ? std::nullopt : inside;
  if (straight_through) p.straight_through = *straight_through;
}

bool Policy::Rule::names(std::string_view pattern, std::string_view layer) {
  if (const std::size_t star = pattern.find('*'); star != std::string_view::npos) {
    const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
    return layer.size() >= before.size() + after.size() && layer.starts_with(before) && layer.ends_with(after);
  }
  return layer == pattern ||
         (layer.starts_with(pattern) && layer.size() > pattern.size() && layer[pattern.size()] == '.');
}

OperatorPrecision Policy::at(OperatorKind kind, std::string_view layer) const {
  OperatorPrecision p;
  for (const Rule& rule : rules)
    if (rule.speaks_of(kind) &&
        (rule.layers.empty() || std::any_of(rule.layers.begin(), rule.layers.end(),
                                            [&](const std::string& pattern) { return Rule::names(pattern, layer); })))
      rule.apply(p);
  return p;
}

Json Policy::identity() const {
  Json of_rules = Json::array(), arithmetic, scaling;
  for (const Rule& rule : rules) {
    Json operators = Json::array();
    for (const OperatorKind kind : rule.operators) operators.push_back(name_of(kind));
    Json what = rule.json;
    what["operators"] = std::move(operators);
    what["layers"] = rule.layers;
    of_rules.push_back(std::move(what));
  }
  if (update.arithmetic) arithmetic = to_json(Storage{update.arithmetic->format, update.arithmetic->rounding, {}});
  if (const auto& s = loss_scaling)
    scaling = {s->initial_scale, s->growth_factor, s->backoff_factor, s->growth_interval, s->enabled,
               s->dynamic,       s->skip};
  return {{"name", name},
          {"rules", std::move(of_rules)},
          {"weights", to_json(update.weights)},
          {"master", update.master_weights},
          {"kahan", update.kahan},
          {"first", to_json(update.first)},
          {"second", to_json(update.second)},
          {"arithmetic", std::move(arithmetic)},
          {"rounded_constants", update.rounded_constants},
          {"loss_scaling", std::move(scaling)}};
}

const std::vector<Policy>& policies() {
  static const std::vector<Policy> all = [] {
    std::vector<Policy> known;
    for (const Json& json : parse_json(policies_text, "policies.json"))
      known.push_back(parse(json, json.value("name", "policies.json"), known));
    return known;
  }();
  return all;
}

Policy parse_policy(const Json& json, const std::string& where) { return parse(json, where, policies()); }

Policy find_policy(const std::string& name) {
  if (name.ends_with(".json")) return parse_policy(read_json(name), name);
  std::vector<std::string> names;
  for (const Policy& policy : policies()) {
    if (policy.name == name) return policy;
    names.push_back(policy.name);
  }
  throw std::invalid_argument(unknown_name("policy", name, names) + "; or a file that ends in .json");
}

}  // namespace halfulp::training
