#include <halfulp/experiments/report/json_text.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp {
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
