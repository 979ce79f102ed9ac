// The configuration of an experiment: parameters are declared once, checked once and written into the report.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>
#include <halfulp/support/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Names in a parameter of type text, for lists that no other type can hold: the names between separators, without
/// blanks around them, in order. Throws std::invalid_argument in one line that begins with the parameter for an empty
/// name, for one that is there twice, and for more than 64.
inline std::vector<std::string> name_list(const std::string& text, char separator, std::string_view parameter) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    std::string piece = text.substr(begin, end - begin);
    while (!piece.empty() && piece.front() == ' ') piece.erase(0, 1);
    while (!piece.empty() && piece.back() == ' ') piece.pop_back();
    if (piece.empty())
      throw std::invalid_argument(fmt::format("{}: an empty name; names are separated by '{}'", parameter, separator));
    for (const std::string& other : all)
      if (other == piece) throw std::invalid_argument(fmt::format("{}: {} is there twice", parameter, piece));
    all.push_back(std::move(piece));
    begin = end + 1;
  }
  if (all.size() > 64) throw std::invalid_argument(fmt::format("{}: {} names; at most 64", parameter, all.size()));
  return all;
}

// Parameters.

enum class ParameterType : std::uint8_t {
  integer,
  real,
  boolean,
  text,
  path,
  choice,
  formats,    ///< one or more format names, separated by commas
  roundings,  ///< one or more rounding mode names
  integers,
  reals,
  choices
};

/// One `--set name=value`. List types take "a,b,c" on the command line and an array in a configuration file.
struct Parameter {
  std::string name;
  ParameterType type;
  std::string default_value;                                  ///< as a user would type it
  std::string help;                                           ///< what it is, its unit, the meaning of its values
  double minimum = -std::numeric_limits<double>::infinity();  ///< of every number, inclusive
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> accepted = {};  ///< of choice and choices
};

/// The version of a report's JSON (report.hpp). It grows when readers of old reports must change. 2 has "finding".
inline constexpr int report_schema_version = 2;
/// The oldest that is still read.
inline constexpr int oldest_schema_version = 1;

/// What a parameter accepts, in words: "an integer from 1 to 100".
std::string accepted_values(const Parameter& parameter);
/// "integer", "list of formats", ...
std::string_view type_name(ParameterType type);
/// Longer lists are typing errors, or would take days.
inline constexpr std::size_t max_list_length = 4096;

/// A format and the name by which the user asked for it.
struct FormatChoice {
  std::string name;
  FloatFormat format;
};

/// All parameters of one experiment with their values. Getters assert that the parameter was declared with that type.
class Config {
 public:
  /// The defaults. Throws std::logic_error if a default does not satisfy its own declaration.
  explicit Config(std::vector<Parameter> parameters);

  /// One `name=value` from the command line. Throws std::invalid_argument with one line: unknown names get the nearest
  /// spelling, bad values what is accepted.
  void set(std::string_view assignment);
  void set(const char* assignment) { set(std::string_view(assignment)); }
  void set(const std::string& assignment) { set(std::string_view(assignment)); }
  /// Sets the members of a configuration file's object, with the same checks. Of a whole report of a
  /// schema_version from oldest_schema_version on it takes the "config".
  void set(const Json& object);

  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string text(std::string_view name) const;  ///< text, path and choice
  std::vector<FormatChoice> formats(std::string_view name) const;
  std::vector<RoundingMode> roundings(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> choices(std::string_view name) const;

  /// Every parameter and its value in order of declaration; `set` reads it back.
  Json to_json() const;
  std::span<const Parameter> parameters() const { return parameters_; }

 private:
  const Parameter& named(std::string_view name) const;
  const Json& value(std::string_view name, std::initializer_list<ParameterType> types) const;
  void assign(const Parameter& parameter, const Json& value);

  std::vector<Parameter> parameters_;
  std::map<std::string, Json, std::less<>> values_;
};

/// Whether a parameter's value is an array.
bool is_list(ParameterType type);

// Values of parameters: read from text of the command line, checked against their declaration.

/// Text of the command line as the JSON that a configuration file would have. Text that does not parse stays a string,
/// which checked_value then refuses.
Json value_from_text(ParameterType type, std::string_view text);

/// The value that a parameter takes from JSON. Throws std::invalid_argument with one line: the parameter, what is
/// wrong, what is accepted.
Json checked_value(const Parameter& parameter, const Json& value);

/// A value as the user gave it, for an error message: one line, bounded.
std::string shown_value(const Json& value);

/// Removes the blanks at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace halfulp
