#include <halfulp/report/config.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace halfulp {
namespace {

using Type = ParameterType;

/// The parameters of a configuration file: the object itself, or the "config" of a report.
const Json& parameters_of(const Json& object) {
  if (!object.contains("schema_version")) return object;
  const Json& version = object.at("schema_version");
  if (!version.is_number_integer() || version < oldest_schema_version || version > report_schema_version)
    throw std::invalid_argument(fmt::format("a report of schema_version {}; accepted: {} to {}", shown_value(version),
                                            oldest_schema_version, report_schema_version));
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
    (void)named(assignment);  // a misspelled name is the more useful message
    throw std::invalid_argument(fmt::format("--set {0}: a value is missing; write {0}=VALUE", assignment));
  }
  const Parameter& parameter = named(trimmed(assignment.substr(0, equals)));
  assign(parameter, value_from_text(parameter.type, assignment.substr(equals + 1)));
}

void Config::set(const Json& object) {
  if (!object.is_object())
    throw std::invalid_argument("a configuration is a JSON object of parameters, not " + shown_value(object));
  for (const auto& [name, value] : parameters_of(object).items()) assign(named(name), value);
}

void Config::assign(const Parameter& parameter, const Json& value) {
  values_[parameter.name] = checked_value(parameter, value);
}

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
std::vector<std::int64_t> Config::integers(std::string_view name) const {
  return list_of<std::int64_t>(value(name, {Type::integers}));
}
std::vector<double> Config::reals(std::string_view name) const { return list_of<double>(value(name, {Type::reals})); }
std::vector<std::string> Config::choices(std::string_view name) const {
  return list_of<std::string>(value(name, {Type::choices}));
}

std::vector<FormatChoice> Config::formats(std::string_view name) const {
  std::vector<FormatChoice> chosen;
  for (const std::string& format : list_of<std::string>(value(name, {Type::formats})))
    chosen.push_back({format, parse_format(format)});
  return chosen;
}

std::vector<RoundingMode> Config::roundings(std::string_view name) const {
  std::vector<RoundingMode> modes;
  for (const std::string& mode : list_of<std::string>(value(name, {Type::roundings})))
    modes.push_back(parse_rounding_mode(mode));
  return modes;
}

Json Config::to_json() const {
  Json object = Json::object();
  for (const Parameter& parameter : parameters_) object[parameter.name] = values_.at(parameter.name);
  return object;
}

namespace {

using Type = ParameterType;

/// The type of a list's elements; formats and roundings are always lists, of themselves.
Type element_type(Type type) {
  switch (type) {
    case Type::integers: return Type::integer;
    case Type::reals: return Type::real;
    case Type::choices: return Type::choice;
    default: return type;
  }
}

[[noreturn]] void refuse(const Parameter& parameter, std::string_view what) {
  throw std::invalid_argument(
      fmt::format("parameter '{}': {}; accepted: {}", parameter.name, what, accepted_values(parameter)));
}

/// The whole of a token as a number, or nothing.
template <class T>
std::optional<T> parse_number(std::string_view token) {
  T value{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc{} || end != token.data() + token.size()) return std::nullopt;
  return value;
}

/// One token of the command line as the JSON of a configuration file. A token that does not parse stays a string, which
/// the check of types then refuses.
Json scalar_from_text(Type type, std::string_view token) {
  if (type == Type::boolean && (token == "true" || token == "false")) return token == "true";
  if (type == Type::integer)
    if (const auto value = parse_number<std::int64_t>(token)) return *value;
  if (type == Type::integer || type == Type::real)
    if (const auto value = parse_number<double>(token); value && std::isfinite(*value)) return *value;
  return std::string(token);
}

/// The integer that a JSON number stands for, or nothing. People write 1e6 and 1000000.0 for integers.
std::optional<std::int64_t> integral(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double real = value.get<double>();
  if (real != std::trunc(real) || std::fabs(real) >= 0x1p53)
    return std::nullopt;  // from there on a double may stand for another integer
  return static_cast<std::int64_t>(real);
}

void check_range(const Parameter& parameter, double number) {
  if (!(number >= parameter.minimum && number <= parameter.maximum))
    refuse(parameter, shown_value(number) + " is out of range");
}

/// Compares as integers: beyond 2^53 not every integer is a double.
void check_range(const Parameter& parameter, std::int64_t number) {
  const auto most = std::floor(parameter.maximum), least = std::ceil(parameter.minimum);
  const bool below = most >= 0x1p63 || (most >= -0x1p63 && number <= static_cast<std::int64_t>(most));
  const bool above = least <= -0x1p63 || (least < 0x1p63 && number >= static_cast<std::int64_t>(least));
  if (!below || !above) refuse(parameter, shown_value(number) + " is out of range");
}

/// Refuses strings that no report holds: control characters, and what is not UTF-8.
void check_text(const Parameter& parameter, const std::string& text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      refuse(parameter, shown_value(text) + " contains a control character");
  try {
    (void)Json(text).dump();
  } catch (const Json::exception&) { refuse(parameter, shown_value(text) + " is not UTF-8"); }
}

/// The value that a scalar parameter, or one element of a list, takes from JSON.
Json checked_scalar(const Parameter& parameter, const Json& value) {
  const auto wrong = [&] { refuse(parameter, "not " + shown_value(value)); };
  switch (element_type(parameter.type)) {
    case Type::integer: {
      const auto integer = integral(value);
      if (!integer) wrong();
      check_range(parameter, *integer);
      return *integer;
    }
    case Type::real:
      if (!value.is_number() || !std::isfinite(value.get<double>())) wrong();
      check_range(parameter, value.get<double>());
      return value.get<double>();
    case Type::boolean:
      if (!value.is_boolean()) wrong();
      return value;
    default: break;
  }
  if (value.is_number() && parameter.type == Type::text)
    refuse(parameter, fmt::format("{} is a number, \"{}\" would be a text", value.dump(), value.dump()));
  if (!value.is_string()) wrong();
  const std::string text = value.get<std::string>();
  check_text(parameter, text);
  try {
    switch (element_type(parameter.type)) {
      case Type::formats: (void)parse_format(text); break;
      case Type::roundings: return name_of(parse_rounding_mode(text));
      case Type::choice:
        if (std::find(parameter.accepted.begin(), parameter.accepted.end(), text) == parameter.accepted.end())
          throw std::invalid_argument(unknown_name("value", text, parameter.accepted));
        break;
      default: break;
    }
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("parameter '{}': {}", parameter.name, error.what()));
  }
  return text;
}

/// Whether two elements mean the same: a format may have two names.
bool same_element(Type type, const Json& a, const Json& b) {
  if (type == Type::formats) return parse_format(a.get<std::string>()) == parse_format(b.get<std::string>());
  return a == b;
}

/// "an integer from 1 to 100", "a number of at least 0".
std::string with_range(std::string_view noun, const Parameter& parameter) {
  const bool below = std::isfinite(parameter.minimum), above = std::isfinite(parameter.maximum);
  if (below && above) return fmt::format("{} from {} to {}", noun, parameter.minimum, parameter.maximum);
  if (below) return fmt::format("{} of at least {}", noun, parameter.minimum);
  if (above) return fmt::format("{} of at most {}", noun, parameter.maximum);
  return std::string(noun);
}

}  // namespace

std::string_view type_name(ParameterType type) {
  switch (type) {
    case Type::integer: return "integer";
    case Type::real: return "number";
    case Type::boolean: return "true|false";
    case Type::text: return "text";
    case Type::path: return "path";
    case Type::choice: return "choice";
    case Type::formats: return "formats";
    case Type::roundings: return "roundings";
    case Type::integers: return "integers";
    case Type::reals: return "numbers";
    case Type::choices: return "choices";
  }
  return {};
}

std::string accepted_values(const Parameter& parameter) {
  switch (parameter.type) {
    case Type::integer: return with_range("an integer", parameter);
    case Type::real: return with_range("a number", parameter);
    case Type::boolean: return "true or false";
    case Type::text: return "text";
    case Type::path: return "a file's path";
    case Type::choice: return fmt::format("one of {}", fmt::join(parameter.accepted, ", "));
    case Type::formats: return "a list of different formats such as fp16,bf16,e4m3,e5m3 (all: halfulp formats)";
    case Type::roundings:
      return fmt::format("a list of different rounding modes among {}", fmt::join(names_of(rounding_modes), ", "));
    case Type::integers: return with_range("a list of different integers, each", parameter);
    case Type::reals: return with_range("a list of different numbers, each", parameter);
    case Type::choices: return fmt::format("a list of different values among {}", fmt::join(parameter.accepted, ", "));
  }
  throw std::logic_error("unknown parameter type");
}

std::string shown_value(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text.resize(57), text += "...";
  return text;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_list(Type type) { return element_type(type) != type || type == Type::formats || type == Type::roundings; }

Json value_from_text(Type type, std::string_view text) {
  if (!is_list(type)) return scalar_from_text(type, type == Type::text || type == Type::path ? text : trimmed(text));
  Json list = Json::array();
  if (trimmed(text).empty()) return list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    list.push_back(scalar_from_text(element_type(type), trimmed(text.substr(begin, end - begin))));
    begin = end + 1;
  }
  return list;
}

Json checked_value(const Parameter& parameter, const Json& value) {
  if (!is_list(parameter.type)) return checked_scalar(parameter, value);
  if (!value.is_array()) refuse(parameter, "not " + shown_value(value));
  if (value.empty()) refuse(parameter, "the list is empty");
  if (value.size() > max_list_length) refuse(parameter, fmt::format("a list of {} is too long", value.size()));
  Json list = Json::array();
  for (const Json& element : value) {
    Json next = checked_scalar(parameter, element);
    for (const Json& earlier : list)
      if (same_element(parameter.type, earlier, next)) refuse(parameter, shown_value(next) + " is there twice");
    list.push_back(std::move(next));
  }
  return list;
}

}  // namespace halfulp
