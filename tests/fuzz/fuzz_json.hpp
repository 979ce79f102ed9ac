// Fuzz targets of readers of JSON: any bytes are refused in one line, or read.
#pragma once

#include "fuzz_target.hpp"

#include <halfulp/support/json.hpp>

#include <stdexcept>
#include <string>

/// What `read` makes of the JSON that these bytes are, as text; empty if it, or the JSON, is refused in one line.
template <class Read>
std::string read_json_bytes(const std::uint8_t* data, std::size_t size, Read&& read) {
  try {
    return read(halfulp::parse_json(std::string(reinterpret_cast<const char*>(data), size), "fuzz.json"));
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
    return {};
  }
}
