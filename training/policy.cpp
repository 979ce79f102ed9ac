#include <halfulp/training/policy.hpp>

#include <halfulp/training/operand.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/json.hpp>
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

/// One storage for all roles, or an object by role.
template <std::size_t N>
void apply_storages(const Json& json, const std::string& where, const std::array<Role, N>& roles,
                    std::array<Storage, N>& storages) {
  if (!json.is_object() || json.contains("format")) {
    storages.fill(parse_storage(json, where));
    return;
  }
  std::vector<std::string> names;
  for (const Role role : roles) names.emplace_back(name_of(role));
  for (const auto& [name, value] : json.items()) {
    index_of(role_names, "role", name, where);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw std::invalid_argument(where + ": '" + name + "' is not among these; " + unknown_name("role", name, names));
    storages[static_cast<std::size_t>(found - names.begin())] = parse_storage(value, where + "." + name);
  }
}

void apply_accumulate(const Json& json, const std::string& where, std::array<std::string, 3>& accumulate) {
  const auto text = [](const Json& value, const std::string& at) {
    if (!value.is_string())
      throw std::invalid_argument(at + " is " + shown(value.dump()) +
                                  "; accepted: a product model in quotes, as \"acc=fp32\"");
    return value.get<std::string>();
  };
  if (!json.is_object()) {
    accumulate.fill(text(json, where));
    return;
  }
  for (const auto& [name, value] : json.items())
    accumulate[index_of(product_names, "product", name, where)] = text(value, where + "." + name);
}

/// Scales that do not follow from the values are kept for operands alone.
void refuse_foreign_scale(const Storage& s, const std::string& where) {
  if (s.delayed) throw std::invalid_argument(where + ": delayed scaling is for operands of products");
  if (s.amax) throw std::invalid_argument(where + ": a fixed amax is for operands of products");
}

/// What one rule says, on top of what earlier ones have said.
void apply_rule(const Json& json, const std::string& where, OperatorPrecision& p) {
  Members members(json, where);
  members.find("operators"), members.find("layers");
  if (const Json* const j = members.find("operands"))
    apply_storages(*j, members.at("operands"), operand_roles, p.operands);
  if (const Json* const j = members.find("results")) apply_storages(*j, members.at("results"), result_roles, p.results);
  // Results are rounded wherever they arise, whose shape blocks do not know; what ranks exchange is one long row.
  for (const Role role : {Role::activation, Role::gradient_of_activation, Role::gradient_of_weight})
    if (p.result(role).block())
      throw std::invalid_argument(
          members.at("results") + ": " + std::string(name_of(role)) + " in " + text_of(p.result(role)) +
          "; accepted: a format without blocks (operands, optimizer states and communication take these)");
  for (const Storage& s : p.results) refuse_foreign_scale(s, members.at("results"));
  if (const Json* const j = members.find("accumulate")) apply_accumulate(*j, members.at("accumulate"), p.accumulate);
  if (const Json* const j = members.find("inside")) {
    const Storage inside = parse_storage(*j, members.at("inside"));
    if (!inside.plain() || !(inside.rounding == Rounding{}))
      throw std::invalid_argument(members.at("inside") + ": only a format's name is accepted");
    p.inside.reset();
    if (!inside.keeps_floats()) p.inside = *inside.plain();
  }
  p.straight_through = members.boolean("straight_through", p.straight_through);
  members.finish();
}

std::vector<std::string> texts(const Json& json, const std::string& where) {
  std::vector<std::string> all;
  if (json.is_string()) return {json.get<std::string>()};
  if (!json.is_array() || json.empty())
    throw std::invalid_argument(where + " is " + shown(json.dump()) + "; accepted: a name or a list of names");
  for (const Json& one : json) {
    if (!one.is_string())
      throw std::invalid_argument(where + " holds " + shown(one.dump()) + "; accepted: names in quotes");
    all.push_back(one.get<std::string>());
  }
  return all;
}

Policy::Rule parse_rule(const Json& json, const std::string& where) {
  Policy::Rule rule;
  rule.json = json;
  Members members(json, where);
  const std::vector<std::string> names = texts(members.need("operators"), members.at("operators"));
  if (!(names.size() == 1 && names[0] == "all"))
    for (const std::string& name : names)
      rule.operators.push_back(
          static_cast<OperatorKind>(index_of(operator_names, "operator", name, members.at("operators"))));
  if (const Json* const layers = members.find("layers")) {
    rule.layers = texts(*layers, members.at("layers"));
    for (const std::string& pattern : rule.layers)
      if (std::count(pattern.begin(), pattern.end(), '*') > 1)
        throw std::invalid_argument(members.at("layers") + ": '" + shown(pattern) + "' has more than one '*'");
  }
  return rule;
}

UpdatePrecision parse_update(const Json* weights, const Json* optimizer, const std::string& where) {
  UpdatePrecision u;
  if (weights) {
    Members members(*weights, where + ".weights");
    if (const Json* const j = members.find("storage")) u.weights = parse_storage(*j, members.at("storage"));
    u.master_weights = members.boolean("master", false);
    u.kahan = members.boolean("kahan", false);
    members.finish();
    refuse_foreign_scale(u.weights, where + ".weights.storage");
    if (u.kahan && u.master_weights)
      throw std::invalid_argument(where + ".weights: Kahan summation and fp32 master weights exclude each other");
  }
  if (optimizer) {
    Members members(*optimizer, where + ".optimizer");
    if (const Json* const j = members.find("state")) u.first = u.second = parse_storage(*j, members.at("state"));
    if (const Json* const j = members.find("first")) u.first = parse_storage(*j, members.at("first"));
    if (const Json* const j = members.find("second")) u.second = parse_storage(*j, members.at("second"));
    for (const Storage* const s : {&u.first, &u.second}) refuse_foreign_scale(*s, where + ".optimizer");
    if (const Json* const j = members.find("arithmetic")) {
      const Storage s = parse_storage(*j, members.at("arithmetic"));
      if (!s.plain())
        throw std::invalid_argument(members.at("arithmetic") +
                                    ": a block format has no arithmetic; accepted: a format");
      if (!s.keeps_floats()) u.arithmetic = Stage{*s.plain(), s.rounding};
    }
    u.rounded_constants = members.boolean("rounded_constants", false);
    members.finish();
  }
  return u;
}

std::optional<LossScalerSettings> parse_loss_scaling(const Json& json, const std::string& where) {
  if (json.is_null()) return {};
  Members members(json, where, "null, or an object with kind, scale, ...");
  enum class Kind { constant, dynamic };
  constexpr std::array<Named<Kind>, 2> kinds{{{"static", Kind::constant}, {"dynamic", Kind::dynamic}}};
  members.need("kind");
  const Kind kind = members.choice("kind", kinds, Kind::dynamic);
  LossScalerSettings s;
  if (kind == Kind::constant) {
    s = static_scale(members.real("scale", s.initial_scale), members.boolean("skip", true));
  } else {
    s.initial_scale = members.real("scale", s.initial_scale);
    s.growth_factor = members.real("growth", s.growth_factor);
    s.backoff_factor = members.real("backoff", s.backoff_factor);
    s.growth_interval = members.integer("interval", s.growth_interval, 1, 1'000'000'000);
  }
  members.finish();
  if (!(static_cast<float>(s.initial_scale) > 0))
    throw std::invalid_argument(members.at("scale") +
                                fmt::format(" is {}; accepted: a number that is above 0 in fp32", s.initial_scale));
  try {
    LossScaler check(s);
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(where + ": " + error.what()); }
  return s;
}

/// Static and dynamic loss scaling have different members: those of the one mean nothing to the other.
bool of_another_kind(const Json& json, const Json& base) {
  return json.contains("kind") && base.contains("kind") && json["kind"] != base["kind"];
}

/// A policy's members on top of those of its base.
Json with_base(const Json& json, const Json& base) {
  Json all = base;
  for (const auto& [name, value] : json.items()) {
    if (name == "base") continue;
    if (name == "rules" && value.is_array())
      for (const Json& rule : value) all["rules"].push_back(rule);
    else if (name != "rules" && value.is_object() && all.contains(name) && all[name].is_object() &&
             !of_another_kind(value, all[name]))
      all[name].update(value);
    else all[name] = value;
  }
  return all;
}

/// Checkpoints are named after policies.
bool names_a_file(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-+").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= 60 && name.front() != '.' && std::all_of(name.begin(), name.end(), fits);
}

/// `known`: the policies that may be a base.
Policy parse(const Json& json, const std::string& where, const std::vector<Policy>& known) {
  Members own(json, where, "an object with name, rules, weights, optimizer, loss_scaling");
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
  Members members(whole, where);
  policy.name = members.text("name");
  if (!names_a_file(policy.name))
    members.refuse("name", whole["name"], "at most 60 letters, digits, '.', '_', '-', '+', no '.' at first");
  const auto line = [&](const char* name, const std::string& otherwise) {
    const std::string text = members.text(name, otherwise);
    if (text.size() > 400 ||
        std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }))
      throw std::invalid_argument(members.at(name) + " is " + shown(text) +
                                  "; accepted: one line of at most 400 characters");
    return text;
  };
  policy.title = line("title", policy.name);
  policy.source = line("source", "");
  if (const Json* const rules = members.find("rules")) {
    if (!rules->is_array())
      throw std::invalid_argument(where + ".rules is " + shown(rules->dump()) + "; accepted: a list of objects");
    for (const Json& rule : *rules)
      policy.rules.push_back(parse_rule(rule, where + ".rules[" + std::to_string(policy.rules.size()) + "]"));
  }
  policy.update = parse_update(members.find("weights"), members.find("optimizer"), where);
  if (const Json* const scaling = members.find("loss_scaling"))
    policy.loss_scaling = parse_loss_scaling(*scaling, where + ".loss_scaling");
  members.finish();
  policy.json = whole;

  // Every operator once: what a rule says wrong is found before anything is trained.
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    OperatorPrecision any;
    apply_rule(policy.rules[i].json, where + ".rules[" + std::to_string(i) + "]", any);
  }
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

bool Policy::Rule::speaks_of(OperatorKind kind) const {
  return operators.empty() || std::find(operators.begin(), operators.end(), kind) != operators.end();
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
      apply_rule(rule.json, name, p);
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
