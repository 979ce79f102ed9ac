#include <halfulp/support/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace halfulp {
namespace {

constexpr std::size_t max_file_size = std::size_t{256} << 20;
constexpr int max_depth = 64;

}  // namespace

Json parse_json(const std::string& text, const std::string& name) {
  const auto not_json = [&](std::size_t at) {
    const std::string_view before = std::string_view(text).substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return std::invalid_argument(name + ": not JSON at line " +
                                 std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ", column " +
                                 std::to_string(before.size() - line_start + 1));
  };
  if (const auto nul = text.find('\0'); nul != text.npos) throw not_json(nul);  // the library takes it for the end
  std::vector<std::set<std::string>> members;                                   // of the objects that are open
  std::string latest;                                                           // the last member that was begun
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > max_depth)
      throw std::invalid_argument(name + ": nested deeper than " + std::to_string(max_depth) + " levels");
    if (event == Json::parse_event_t::object_start) members.emplace_back();
    if (event == Json::parse_event_t::object_end) members.pop_back();
    if (event == Json::parse_event_t::key) latest = " of member " + parsed.dump();
    if (event == Json::parse_event_t::key && !members.back().insert(parsed.get<std::string>()).second)
      throw std::invalid_argument(name + ": member " + parsed.dump() + " is there twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw not_json(error.byte > 0 ? error.byte - 1 : 0);
  } catch (const Json::out_of_range&) {
    throw std::invalid_argument(name + ": a number" + latest +
                                " is too large; accepted: what fits a double, up to 1.79e308");
  }
}

Json read_json(const std::string& path) {
  const auto cannot = [&](const char* why) { throw std::invalid_argument("cannot read " + path + ": " + why); };
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
  if (std::ferror(file.get())) cannot(std::strerror(errno));
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

/// `depth` 0 and 1, the report and its parts, are always broken into lines: configurations compare line by line.
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

}  // namespace halfulp
