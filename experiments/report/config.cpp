#include <halfulp/experiments/report/config.hpp>

#include <halfulp/emulation/names.hpp>
#include <halfulp/experiments/report/parameter_value.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace halfulp {
namespace {

using Type = ParameterType;

/// The parameters in a configuration file: the object itself, or "config" where it is a report.
const Json& parameters_of(const Json& object) {
  if (!object.contains("schema_version")) return object;
  if (object.at("schema_version") != report_schema_version)
    throw std::invalid_argument(fmt::format("a report of schema_version {}; accepted: {}", shown_value(object.at("schema_version")), report_schema_version));
  if (!object.contains("config") || !object.at("config").is_object())
    throw std::invalid_argument("a report without a config; accepted: a report, or a JSON object of parameters");
  return object.at("config");
}

template <class T>
std::vector<T> list_of(const Json& value) {
  return value.get<std::vector<T>>();
}

}  // namespace

Config::Config(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  for (const Parameter& parameter : parameters_) {
    if (values_.count(parameter.name)) throw std::logic_error("parameter '" + parameter.name + "' is declared twice");
    try {
      assign(parameter, value_from_text(parameter.type, parameter.default_value));
    } catch (const std::invalid_argument& error) {
      throw std::logic_error(std::string("default value: ") + error.what());
    }
  }
}

const Parameter& Config::named(std::string_view name) const {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return parameter;
    names.push_back(parameter.name);
  }
  throw std::invalid_argument(unknown_name("parameter", name, std::move(names)));
}

void Config::set(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    (void)named(assignment);  // a misspelled name is the more useful thing to say
    throw std::invalid_argument(fmt::format("--set {0}: a value is missing; write {0}=VALUE", assignment));
  }
  const Parameter& parameter = named(trimmed(assignment.substr(0, equals)));
  assign(parameter, value_from_text(parameter.type, assignment.substr(equals + 1)));
}

void Config::set(const Json& object) {
  if (!object.is_object()) throw std::invalid_argument("a configuration is a JSON object of parameters, not " + shown_value(object));
  for (const auto& [name, value] : parameters_of(object).items()) assign(named(name), value);
}

void Config::assign(const Parameter& parameter, const Json& value) { values_[parameter.name] = checked_value(parameter, value); }

const Json& Config::value(std::string_view name, std::initializer_list<ParameterType> types) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name != name) continue;
    for (const ParameterType type : types)
      if (parameter.type == type) return values_.find(name)->second;
    throw std::logic_error(fmt::format("parameter '{}' is asked for as another type than it was declared with", name));
  }
  throw std::logic_error(fmt::format("parameter '{}' is not declared", name));
}

std::int64_t Config::integer(std::string_view name) const { return value(name, {Type::integer}).get<std::int64_t>(); }
double Config::real(std::string_view name) const { return value(name, {Type::real}).get<double>(); }
bool Config::boolean(std::string_view name) const { return value(name, {Type::boolean}).get<bool>(); }
std::string Config::text(std::string_view name) const {
  return value(name, {Type::text, Type::path, Type::choice}).get<std::string>();
}
std::vector<std::int64_t> Config::integers(std::string_view name) const { return list_of<std::int64_t>(value(name, {Type::integers})); }
std::vector<double> Config::reals(std::string_view name) const { return list_of<double>(value(name, {Type::reals})); }
std::vector<std::string> Config::choices(std::string_view name) const { return list_of<std::string>(value(name, {Type::choices})); }

std::vector<FormatChoice> Config::formats(std::string_view name) const {
  std::vector<FormatChoice> chosen;
  for (const std::string& format : list_of<std::string>(value(name, {Type::formats}))) chosen.push_back({format, parse_format(format)});
  return chosen;
}

std::vector<RoundingMode> Config::roundings(std::string_view name) const {
  std::vector<RoundingMode> modes;
  for (const std::string& mode : list_of<std::string>(value(name, {Type::roundings})))
    modes.push_back(value_named(rounding_modes, "rounding mode", mode));
  return modes;
}

Json Config::to_json() const {
  Json object = Json::object();
  for (const Parameter& parameter : parameters_) object[parameter.name] = values_.at(parameter.name);
  return object;
}

}  // namespace halfulp
