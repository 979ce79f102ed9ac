// Options that take a whole number.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp::cli {

/// The whole of `text` as an integer from `least` to `most`. Throws std::invalid_argument in one line:
/// "--seed is '-1'; accepted: an integer from 0 to 18446744073709551615".
std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most);

/// Adds the option `name`; what it is given goes through whole_number into `value`, which outlives the parsing.
template <class T>
CLI::Option* add_number_option(CLI::App& app, std::string name, T& value, std::uint64_t least, std::uint64_t most, std::string description) {
  const auto take = [name, &value, least, most](const std::string& text) { value = static_cast<T>(whole_number(name, text, least, most)); };
  return app.add_option_function<std::string>(name, take, std::move(description))->type_name("N");
}

}  // namespace halfulp::cli
