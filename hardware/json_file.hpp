// JSON read with errors that name the line.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace halfulp {

using Json = nlohmann::ordered_json;

/// A JSON file of at most 256 MiB, as "-" standard input. Throws std::invalid_argument with one line: why the file cannot
/// be read, or the line and column where it stops being JSON (NUL bytes, duplicate members and nesting beyond 64 levels included).
Json read_json(const std::string& path);
/// The same for text; `name` stands for it in errors.
Json parse_json(const std::string& text, const std::string& name);

}  // namespace halfulp
