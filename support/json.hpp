// JSON read with errors that name the line.
#pragma once

#include <halfulp/support/spelling.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

using Json = nlohmann::ordered_json;

/// A JSON file of at most 256 MiB, as "-" standard input. Throws std::invalid_argument with one line: why the file
/// cannot be read, or the line and column where it stops being JSON (NUL bytes, duplicate members and nesting beyond 64
/// levels included).
Json read_json(const std::string& path);
/// The same for text; `name` stands for it in errors.
Json parse_json(const std::string& text, const std::string& name);

// JSON as text, for people and byte-comparable.

/// JSON with two blanks of indentation; what fits on a line takes one line, and so does every row
/// and column of a table.
std::string pretty(const Json& json);

// Values in a JSON document with their place, and members of an object, read one by one; what is left over is an error.

/// A value and where it is. Reads it as a type, or throws std::invalid_argument in one line that begins with the place.
/// The value outlives this.
class JsonValue {
 public:
  JsonValue(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}
  const Json& json() const { return json_; }
  [[noreturn]] void refuse(std::string_view accepted) const {
    throw std::invalid_argument(where_ + " is " + shown(json_.dump(-1, ' ', false, Json::error_handler_t::replace)) +
                                "; accepted: " + std::string(accepted));
  }
  std::string text() const {
    if (!json_.is_string()) refuse("text in quotes");
    return json_.get<std::string>();
  }
  bool boolean() const {
    if (!json_.is_boolean()) refuse("true or false");
    return json_.get<bool>();
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    if (!json_.is_number_integer() || json_.get<double>() < static_cast<double>(least) ||
        json_.get<double>() > static_cast<double>(most))
      refuse("an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return json_.get<std::int64_t>();
  }
  double real() const {
    if (!json_.is_number()) refuse("a number");
    return json_.get<double>();
  }
  const Json& list() const {
    if (!json_.is_array()) refuse("a list");
    return json_;
  }
  /// Text that `parse` takes; its errors get the place.
  template <class Parse>
  auto parsed(Parse&& parse) const {
    const std::string word = text();
    try {
      return parse(word);
    } catch (const std::invalid_argument& error) { throw std::invalid_argument(where_ + ": " + error.what()); }
  }
  template <class T, std::size_t N>
  T named(const std::array<Named<T>, N>& table) const {
    return parsed([&](const std::string& word) { return value_named(table, "name", word); });
  }

 private:
  const Json& json_;
  std::string where_;
};

/// Members of an object at `where` (may be empty). Functions with `otherwise` give that for members that are not there.
/// The object outlives this.
class Members {
 public:
  Members(const Json& json, std::string where, std::string_view accepted = "an object")
      : json_(json), where_(std::move(where)) {
    if (!json.is_object()) JsonValue(json, where_.empty() ? "the top" : where_).refuse(accepted);
  }
  /// Null if it is not there.
  const Json* find(std::string_view name) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& need(std::string_view name) {
    if (const Json* const value = find(name)) return *value;
    fail(std::string(name) + " is missing");
  }
  JsonValue operator[](std::string_view name) { return {need(name), at(name)}; }
  std::string text(std::string_view name) { return (*this)[name].text(); }
  std::string text(std::string_view name, std::string_view otherwise) {
    const Json* const value = find(name);
    return value ? JsonValue(*value, at(name)).text() : std::string(otherwise);
  }
  bool boolean(std::string_view name, bool otherwise) {
    const Json* const value = find(name);
    return value ? JsonValue(*value, at(name)).boolean() : otherwise;
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
    const Json* const value = find(name);
    return value ? JsonValue(*value, at(name)).integer(least, most) : otherwise;
  }
  double real(std::string_view name, double otherwise) {
    const Json* const value = find(name);
    return value ? JsonValue(*value, at(name)).real() : otherwise;
  }
  /// One of the names of a table of (name, value).
  template <class Table, class T>
  T choice(std::string_view name, const Table& table, T otherwise) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    const std::string word = JsonValue(*value, at(name)).text();
    std::vector<std::string> names;
    for (const auto& [its_name, its_value] : table) {
      if (its_name == word) return its_value;
      names.emplace_back(its_name);
    }
    fail(unknown_name(name, word, names));
  }
  /// Throws for a member that nobody asked for.
  void finish() const {
    for (const auto& [name, value] : json_.items()) {
      bool asked = false;
      for (const std::string& known : known_) asked |= known == name;
      if (!asked) fail(unknown_name("member", name, known_));
    }
  }
  std::string at(std::string_view name) const { return (where_.empty() ? "" : where_ + ".") + std::string(name); }
  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view accepted) const {
    JsonValue(value, at(name)).refuse(accepted);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument((where_.empty() ? "" : where_ + ": ") + what);
  }

 private:
  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace halfulp
