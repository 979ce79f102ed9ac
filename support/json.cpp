#include <halfulp/support/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {
namespace {

constexpr std::size_t max_file_size = std::size_t{256} << 20;
constexpr int max_depth = 64;

/// Refuses what is no JSON here, event by event. (The library's own callback looks through all members of an object at
/// the end of each of them.)
class Watcher : public nlohmann::json_sax<nlohmann::json> {
 public:
  Watcher(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    members_.emplace_back();
    return deeper();
  }
  bool end_object() override {
    members_.pop_back();
    return --depth_, true;
  }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& member) override {
    latest_ = " of member " + nlohmann::json(member).dump();
    if (!members_.back().insert(member).second)
      throw std::invalid_argument(name_ + ": member " + nlohmann::json(member).dump() + " is there twice");
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error))
      throw std::invalid_argument(name_ + ": a number" + latest_ +
                                  " is too large; accepted: what fits a double, up to 1.79e308");
    not_json(byte > 0 ? byte - 1 : 0);
  }
  [[noreturn]] void not_json(std::size_t at) const {
    const std::string_view before = std::string_view(text_).substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    throw std::invalid_argument(name_ + ": not JSON at line " +
                                std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ", column " +
                                std::to_string(before.size() - line_start + 1));
  }

 private:
  bool deeper() {
    if (++depth_ > max_depth)
      throw std::invalid_argument(name_ + ": nested deeper than " + std::to_string(max_depth) + " levels");
    return true;
  }

  const std::string& text_;
  const std::string& name_;
  std::vector<std::set<std::string>> members_;  ///< of each object that is open
  std::string latest_;                          ///< the member that began last
  int depth_ = 0;
};

void watch(const std::string& text, const std::string& name) {
  Watcher watcher(text, name);
  // The library takes a NUL for the end of the text.
  if (const auto nul = text.find('\0'); nul != text.npos) watcher.not_json(nul);
  nlohmann::json::sax_parse(text, &watcher);
}

/// Builds what was watched before, so that no member is there twice. (The library's own builder looks each new member
/// up among all others of its object, which lie in a list: 200,000 members took a minute.)
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add({}); }
  bool boolean(bool x) override { return add(x); }
  bool number_integer(number_integer_t x) override { return add(x); }
  bool number_unsigned(number_unsigned_t x) override { return add(x); }
  bool number_float(number_float_t x, const string_t&) override { return add(x); }
  bool string(string_t& x) override { return add(std::move(x)); }
  bool binary(binary_t&) override { return false; }  // no JSON text has any
  bool start_object(std::size_t) override { return begin(Json::object()); }
  bool start_array(std::size_t) override { return begin(Json::array()); }
  bool key(string_t& member) override {
    open_.back()->get_ref<Json::object_t&>().Container::emplace_back(std::move(member), Json());
    return true;
  }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  Json result;

 private:
  using Container = Json::object_t::Container;

  /// Where the next value belongs: behind the latest key, or at the end of a list.
  Json& place() {
    if (open_.empty()) return result;
    if (open_.back()->is_object()) return open_.back()->get_ref<Json::object_t&>().Container::back().second;
    return open_.back()->get_ref<Json::array_t&>().emplace_back();
  }
  bool add(Json value) {
    place() = std::move(value);
    return true;
  }
  bool begin(Json empty) {
    Json& here = place();
    here = std::move(empty);
    open_.push_back(&here);  // it stays where it is while it is open: only what it holds grows
    return true;
  }

  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(const std::string& text, const std::string& name) {
  watch(text, name);
  Builder builder;
  Json::sax_parse(text, &builder);
  return std::move(builder.result);
}

nlohmann::json parse_large_json(const std::string& text, const std::string& name) {
  watch(text, name);
  return nlohmann::json::parse(text);
}

Json read_json(const std::string& path) {
  const auto cannot = [&](const char* why) {
    throw std::invalid_argument("cannot read " + (path.empty() ? "''" : path) + ": " + why);
  };
  const auto close = [](std::FILE* file) {
    if (file != stdin) std::fclose(file);
  };
  const std::unique_ptr<std::FILE, decltype(close)> file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), close);
  if (!file) cannot(std::strerror(errno));
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), count);
    if (text.size() > max_file_size) cannot("larger than 256 MiB");
  }
  if (std::ferror(file.get())) cannot(errno == EISDIR ? "a folder; accepted: a file" : std::strerror(errno));
  return parse_json(text, path == "-" ? "standard input" : path);
}

namespace {

constexpr std::size_t line_length = 110;

std::string scalar(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void append_inline(const Json& json, std::string& out) {
  if (!json.is_structured()) {
    out += scalar(json);
    return;
  }
  out += json.is_object() ? '{' : '[';
  const char* separator = "";
  for (const auto& [key, value] : json.items()) {
    out += separator;
    if (json.is_object()) out += scalar(key) + ": ";
    append_inline(value, out);
    separator = ", ";
  }
  out += json.is_object() ? '}' : ']';
}

/// The report and its parts, at depth 0 and 1, always take several lines: configurations then compare line by line.
void append_pretty(const Json& json, std::string& out, int depth, bool is_row) {
  if (!json.is_structured() || json.empty()) return append_inline(json, out);
  if (depth > 1 || is_row) {
    std::string line;
    append_inline(json, line);
    if (is_row || line.size() + 2 * static_cast<std::size_t>(depth) <= line_length) {
      out += line;
      return;
    }
  }
  const std::string indent(2 * static_cast<std::size_t>(depth), ' ');
  out += json.is_object() ? "{" : "[";
  const char* separator = "\n";
  for (const auto& [key, value] : json.items()) {
    out += separator + indent + "  ";
    if (json.is_object()) out += scalar(key) + ": ";
    if ((key == "rows" || key == "columns") && value.is_array() && !value.empty()) {
      out += "[";
      const char* row_separator = "\n";
      for (const Json& row : value) {
        out += row_separator + indent + "    ";
        append_pretty(row, out, depth + 2, true);
        row_separator = ",\n";
      }
      out += "\n" + indent + "  ]";
    } else {
      append_pretty(value, out, depth + 1, false);
    }
    separator = ",\n";
  }
  out += "\n" + indent + (json.is_object() ? "}" : "]");
}

}  // namespace

std::string pretty(const Json& json) {
  std::string out;
  append_pretty(json, out, 0, false);
  return out + "\n";
}

void JsonValue::refuse(std::string_view accepted) const {
  throw std::invalid_argument(where_ + " is " + shown(scalar(json_)) + "; accepted: " + std::string(accepted));
}

std::string JsonValue::text() const {
  if (!json_.is_string()) refuse("text in quotes");
  return json_.get<std::string>();
}

bool JsonValue::boolean() const {
  if (!json_.is_boolean()) refuse("true or false");
  return json_.get<bool>();
}

std::int64_t JsonValue::integer(std::int64_t least, std::int64_t most) const {
  const bool fits = json_.is_number_unsigned() ? std::in_range<std::int64_t>(json_.get<std::uint64_t>())
                                               : json_.is_number_integer();
  if (!fits || json_.get<std::int64_t>() < least || json_.get<std::int64_t>() > most)
    refuse("an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return json_.get<std::int64_t>();
}

double JsonValue::real() const {
  if (!json_.is_number()) refuse("a number");
  return json_.get<double>();
}

const Json& JsonValue::list() const {
  if (!json_.is_array()) refuse("a list");
  return json_;
}

Members::Members(const Json& json, std::string where, std::string_view accepted)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) JsonValue(json, where_.empty() ? "the top" : where_).refuse(accepted);
}

const Json* Members::find(std::string_view name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) known_.emplace_back(name);
  const auto found = json_.find(name);
  return found == json_.end() ? nullptr : &*found;
}

const Json& Members::need(std::string_view name) {
  if (const Json* const value = find(name)) return *value;
  fail(std::string(name) + " is missing");
}

std::string Members::text(std::string_view name, std::string_view otherwise) {
  const Json* const value = find(name);
  return value ? JsonValue(*value, at(name)).text() : std::string(otherwise);
}

bool Members::boolean(std::string_view name, bool otherwise) {
  const Json* const value = find(name);
  return value ? JsonValue(*value, at(name)).boolean() : otherwise;
}

std::int64_t Members::integer(std::string_view name, std::int64_t otherwise, std::int64_t least, std::int64_t most) {
  const Json* const value = find(name);
  return value ? JsonValue(*value, at(name)).integer(least, most) : otherwise;
}

double Members::real(std::string_view name, double otherwise) {
  const Json* const value = find(name);
  return value ? JsonValue(*value, at(name)).real() : otherwise;
}

void Members::finish() const {
  for (const auto& [name, value] : json_.items())
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) fail(unknown_name("member", name, known_));
}

}  // namespace halfulp
