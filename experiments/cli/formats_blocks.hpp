// What `halfulp formats` says of block formats.
#pragma once

#include <halfulp/formats/block.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace halfulp::cli {

/// One line a block format of the catalogue.
std::string block_table();
/// Everything about one.
std::string block_details(const BlockFormat& f);
nlohmann::ordered_json block_json(const BlockFormat& f);

}  // namespace halfulp::cli
