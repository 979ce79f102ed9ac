// What a user may set in an experiment: declared once, checked once, written whole into the report.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>
#include <halfulp/hardware/json_file.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

enum class ParameterType : std::uint8_t {
  integer, real, boolean, text, path, choice,
  formats,    ///< one or more format names, separated by commas
  roundings,  ///< one or more rounding mode names
  integers, reals, choices
};

/// One `--set name=value`. List types take "a,b,c" on the command line and an array in a configuration file.
struct Parameter {
  std::string name;
  ParameterType type;
  std::string default_value;  ///< as one would type it
  std::string help;           ///< what it is, its unit, what the values mean
  double minimum = -std::numeric_limits<double>::infinity();  ///< of every number, inclusive
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> accepted = {};  ///< of choice and choices
};

/// Of the JSON of a report (report.hpp); raised when a reader of old reports must take notice.
inline constexpr int report_schema_version = 1;

/// What a parameter accepts, in words: "an integer from 1 to 100".
std::string accepted_values(const Parameter& parameter);
/// "integer", "list of formats", ...
std::string_view type_name(ParameterType type);
/// Longer lists are typing errors, or ask for days of work.
inline constexpr std::size_t max_list_length = 4096;

/// A format and the name it was asked for by.
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
  /// The members of a configuration file's object, checked alike. A whole report of this schema_version is accepted too: its
  /// "config" is taken.
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

  /// Every parameter and its value in order of declaration, fit to be read back by `set`.
  Json to_json() const;
  std::span<const Parameter> parameters() const { return parameters_; }

 private:
  const Parameter& named(std::string_view name) const;
  const Json& value(std::string_view name, std::initializer_list<ParameterType> types) const;
  void assign(const Parameter& parameter, const Json& value);

  std::vector<Parameter> parameters_;
  std::map<std::string, Json, std::less<>> values_;
};

}  // namespace halfulp
