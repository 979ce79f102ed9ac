// Members of a JSON object, read one by one; what is left over is an error.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/nearest.hpp>
#include <halfulp/hardware/json_file.hpp>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Reads members with their type, or throws std::invalid_argument in one line that begins with where they are. The object outlives this.
class Members {
 public:
  Members(const Json& json, std::string where, std::string_view accepted = "an object") : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw std::invalid_argument(where_ + " is " + text_of(json) + "; accepted: " + std::string(accepted));
  }
  /// Null if it is not there.
  const Json* find(std::string_view name) {
    known_.emplace_back(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& need(std::string_view name) {
    if (const Json* const value = find(name)) return *value;
    throw std::invalid_argument(where_ + ": " + std::string(name) + " is missing");
  }
  std::string text(std::string_view name) { return text_in(need(name), at(name)); }
  std::string text(std::string_view name, std::string_view otherwise) {
    const Json* const value = find(name);
    return value ? text_in(*value, at(name)) : std::string(otherwise);
  }
  bool boolean(std::string_view name, bool otherwise) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) refuse(name, *value, "true or false");
    return value->get<bool>();
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    if (!value->is_number_integer() || value->get<double>() < static_cast<double>(least) || value->get<double>() > static_cast<double>(most))
      refuse(name, *value, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return value->get<std::int64_t>();
  }
  double real(std::string_view name, double otherwise) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    if (!value->is_number()) refuse(name, *value, "a number");
    return value->get<double>();
  }
  /// One of the names of a table of (name, value).
  template <class Table, class T>
  T choice(std::string_view name, const Table& table, T otherwise) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    const std::string word = text_in(*value, at(name));
    std::vector<std::string> names;
    for (const auto& [its_name, its_value] : table) {
      if (its_name == word) return its_value;
      names.emplace_back(its_name);
    }
    throw std::invalid_argument(where_ + ": " + unknown_name(name, word, names));
  }
  /// Throws for a member that nobody asked for.
  void finish() const {
    for (const auto& [name, value] : json_.items()) {
      bool asked = false;
      for (const std::string& known : known_) asked |= known == name;
      if (!asked) throw std::invalid_argument(where_ + ": " + unknown_name("member", name, known_));
    }
  }
  std::string at(std::string_view name) const { return where_ + "." + std::string(name); }
  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view accepted) const {
    throw std::invalid_argument(at(name) + " is " + text_of(value) + "; accepted: " + std::string(accepted));
  }

 private:
  static std::string text_of(const Json& json) { return shown(json.dump(-1, ' ', false, Json::error_handler_t::replace)); }
  static std::string text_in(const Json& value, const std::string& where) {
    if (!value.is_string()) throw std::invalid_argument(where + " is " + text_of(value) + "; accepted: text in quotes");
    return value.get<std::string>();
  }
  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace halfulp
