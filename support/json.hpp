// JSON: read with errors that name the line, written for people, its values taken with errors that name the place.
#pragma once

#include <halfulp/support/json_fwd.hpp>
#include <halfulp/support/spelling.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A JSON file of at most 256 MiB; "-" is standard input. Throws std::invalid_argument with one line: why the file
/// cannot be read, or the line and column where it stops being JSON. NUL bytes, duplicate members and nesting beyond 64
/// levels are not JSON here.
Json read_json(const std::string& path);
/// The same for text; `name` stands for it in errors.
Json parse_json(const std::string& text, const std::string& name);
/// The same of objects with many members, which are sorted then: Json looks through all of them for each that it takes.
nlohmann::json parse_large_json(const std::string& text, const std::string& name);

/// JSON with two blanks of indentation. What fits on a line takes one line, and so does every row and column of a
/// table. Two such texts can be compared byte by byte.
std::string pretty(const Json& json);

/// A double as JSON, which has no NaN and no infinity: those become the strings "NaN", "Infinity", "-Infinity".
Json number(double value);
/// The number behind a JSON value: a number, or one of the three words of `number`.
std::optional<double> number_of(const Json& value);

/// A value and its place in the document. Its functions read it as a type, or throw std::invalid_argument in one line
/// that begins with the place. The document outlives this.
class JsonValue {
 public:
  JsonValue(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}
  const Json& json() const { return json_; }
  const std::string& where() const { return where_; }
  /// "WHERE is VALUE; accepted: ..."
  [[noreturn]] void refuse(std::string_view accepted) const;

  std::string text() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  double real() const;
  const Json& list() const;
  /// Text that `parse` takes; its errors get the place.
  template <class Parse>
  auto parsed(Parse&& parse) const {
    const std::string word = text();
    try {
      return parse(word);
    } catch (const std::invalid_argument& error) { throw std::invalid_argument(where_ + ": " + error.what()); }
  }
  /// The value of that name: "WHERE: unknown name 'truncate'; ...".
  template <class T, std::size_t N>
  T named(const std::array<Named<T>, N>& table) const {
    return parsed([&](const std::string& word) { return value_named(table, "name", word); });
  }

 private:
  const Json& json_;
  std::string where_;
};

/// The members of an object, read one by one. Functions with `otherwise` give that for members that are absent. The
/// document outlives this.
class Members {
 public:
  /// `where` may be empty: the members of the document itself have no prefix then.
  Members(const Json& json, std::string where, std::string_view accepted = "an object");
  /// Null if it is absent.
  const Json* find(std::string_view name);
  const Json& need(std::string_view name);
  JsonValue operator[](std::string_view name) { return {need(name), at(name)}; }
  std::string text(std::string_view name) { return (*this)[name].text(); }
  std::string text(std::string_view name, std::string_view otherwise);
  bool boolean(std::string_view name, bool otherwise);
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  double real(std::string_view name, double otherwise);
  /// One of the names of a table of (name, value).
  template <class Table, class T>
  T choice(std::string_view name, const Table& table, T otherwise) {
    const Json* const value = find(name);
    return value ? chosen(name, JsonValue(*value, at(name)).text(), table) : otherwise;
  }
  /// The value of that name: "WHERE: unknown MEMBER 'mean'; ...".
  template <class Table>
  auto chosen(std::string_view member, const std::string& word, const Table& table) const {
    std::vector<std::string> names;
    for (const auto& [its_name, its_value] : table) {
      if (its_name == word) return its_value;
      names.emplace_back(its_name);
    }
    fail(unknown_name(member, word, names));
  }
  /// Throws for a member that nobody asked for.
  void finish() const;
  std::string at(std::string_view name) const { return (where_.empty() ? "" : where_ + ".") + std::string(name); }
  const std::string& where() const { return where_; }
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
