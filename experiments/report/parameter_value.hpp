// The values of one parameter: read from the command line's text, checked against its declaration.
#pragma once

#include <halfulp/experiments/report/config.hpp>

namespace halfulp {

/// A text of the command line as the JSON that a configuration file would have. What does not parse stays a string, which
/// checked_value then refuses.
Json value_from_text(ParameterType type, std::string_view text);

/// The value that a parameter takes from JSON. Throws std::invalid_argument with one line: the parameter, what is wrong, what is
/// accepted.
Json checked_value(const Parameter& parameter, const Json& value);

/// A value as the user gave it, for an error message: one line, bounded.
std::string shown_value(const Json& value);

/// Without the blanks at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace halfulp
